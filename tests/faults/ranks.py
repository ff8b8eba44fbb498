"""Several processes: the tests of them, each of which is a try here."""

import subprocess
import sys
from xml.etree import ElementTree

from faults.driver import TESTS, environment


def together(lab):
    """Same ids per step, weights within 1e-5, mAP within 1e-7; another number on resume."""
    return _tested(lab, "test_ranks.py")


def launched(lab):
    """torchrun, accelerate and srun: what they are told, and a rank that is killed."""
    return _tested(lab, "test_launchers.py", "-m", "long")


def _tested(lab, file, *more):
    report = lab.root / f"{file}.xml"
    words = [sys.executable, "-m", "pytest", file, f"--junitxml={report}", *more]
    done = subprocess.run(words, cwd=TESTS, env=environment(), capture_output=True, text=True)
    cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    for case in cases:
        wrong = [each.get("message", "") for each in case if each.tag in ("failure", "error")]
        yield {"at": case.get("name")}, ", ".join(wrong)[-900:]
    if done.returncode not in (0, 1) or not cases:
        yield {"at": file}, (done.stdout + done.stderr)[-900:]
