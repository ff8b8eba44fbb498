"""Linux made to behave like Windows where that matters to us; `begin` turns it on.

No descriptor of a folder, no file removed, replaced or cut while it is open or mapped, no sync of
what is open for reading alone, no fork, no modules and constants of POSIX.
"""

import errno
import importlib
import multiprocessing
import os
import pkgutil
import shutil
import signal
import stat
import sys

POSIX_MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty")
POSIX_NAMES = (
    *("fork", "forkpty", "register_at_fork", "pread", "pwrite", "posix_fallocate", "memfd_create"),
    *("sched_getaffinity", "getuid", "geteuid", "getpgid", "killpg", "setsid", "sysconf", "fchmod"),
    *("O_DIRECTORY", "O_NOFOLLOW", "O_PATH", "mkfifo", "chown", "nice"),
)
POSIX_SIGNALS = ("SIGCHLD", "SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPIPE")


def modules():
    import g2netpl

    found = pkgutil.walk_packages(g2netpl.__path__, "g2netpl.")
    return [each.name for each in found if not each.name.endswith("__main__")]


def begin():
    """From here on all is as on Windows; every module of the package is imported so."""
    for name in modules():  # with what they need of others, which is as it is
        importlib.import_module(name)
    for name in [each for each in sys.modules if each.partition(".")[0] == "g2netpl"]:
        del sys.modules[name]
    _change_files()
    for name in POSIX_MODULES:
        sys.modules[name] = None  # whoever imports it gets an ImportError
    for name in POSIX_NAMES:
        if hasattr(os, name):
            delattr(os, name)
    multiprocessing.set_start_method("spawn")
    before = {name: signal.__dict__.pop(name) for name in POSIX_SIGNALS}
    system, sys.platform = sys.platform, "win32"
    for name in modules():
        importlib.import_module(name)
    sys.platform = system  # for other packages, as are the signals
    signal.__dict__.update(before)


def in_use(path):
    """Whether this process has a file open, or mapped."""
    real = os.path.realpath(path)
    with open("/proc/self/maps", encoding="utf-8") as maps:
        if any(line.rstrip("\n").endswith(f" {real}") for line in maps):
            return True
    names = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    return any(os.path.lexists(name) and os.readlink(name) == real for name in names)


def _refuse(path):
    raise PermissionError(errno.EACCES, "used by another process", str(path))


def _change_files():
    import fcntl

    os.supports_dir_fd, os.supports_fd = set(), os.supports_fd - {os.chmod}
    shutil._use_fd_functions = False
    _os = {name: getattr(os, name) for name in ("open", "fsync", "truncate", "ftruncate", "chmod")}

    def open_(path, flags, mode=0o777, *, dir_fd=None):
        if dir_fd is not None:
            raise NotImplementedError("dir_fd")
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return _os["open"](path, flags, mode)

    def fsync(descriptor):
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        _os["fsync"](descriptor)

    def truncate(path, length):
        descriptor = isinstance(path, int)
        name = os.readlink(f"/proc/self/fd/{path}") if descriptor else os.path.realpath(path)
        with open("/proc/self/maps", encoding="utf-8") as maps:
            if any(line.rstrip("\n").endswith(f" {name}") for line in maps):
                raise OSError(errno.EINVAL, "a user-mapped section is open")
        _os["truncate"](path, length)

    def chmod(path, *given, **more):
        assert not isinstance(path, int), "chmod of a descriptor"
        _os["chmod"](path, *given, **more)

    os.open, os.fsync, os.truncate, os.ftruncate = open_, fsync, truncate, truncate
    os.chmod = chmod
    for name in ("rename", "replace"):
        setattr(os, name, _moving(getattr(os, name), over=name == "replace"))
    for name in ("unlink", "remove"):
        setattr(os, name, _removing(getattr(os, name)))


def _moving(move, over):
    def moved(source, target):
        if os.path.exists(target) and not over:
            raise FileExistsError(errno.EEXIST, "File exists", str(target))
        for each in (source, target):
            inside = [os.path.join(at, name) for at, _, names in os.walk(each) for name in names]
            if any(os.path.exists(name) and in_use(name) for name in (each, *inside)):
                _refuse(each)
        move(source, target)

    return moved


def _removing(remove):
    def removed(path, *, dir_fd=None):
        assert dir_fd is None, "dir_fd"
        if os.path.lexists(path) and stat.S_ISREG(os.lstat(path).st_mode) and in_use(path):
            _refuse(path)
        remove(path)

    return removed
