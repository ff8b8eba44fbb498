"""Compare methods on frozen features or on the built-in scenes, over settings and seeds.

examples:
  g2netpl compare --features coco_features --methods an,wan,epr,role,g2netpl \\
      --settings fspl,sspl:0.6,sspl:0.2 --seeds 0,1,2 --output runs/coco
  g2netpl compare --features F --methods bce --settings full --seeds 0 --output runs/ceiling
  g2netpl compare --features F --methods epr,epr:regulariser=0.1,g2netpl:response=frozen \\
      --settings fspl --seeds 0 --output runs/controls
  g2netpl compare --features F --methods g2netpl --settings fspl --seeds 0 \\
      --set g2netpl.penalty=1 --output runs/strong
  g2netpl compare --features F --methods an,epr,em,g2netpl --settings fspl,sspl:0.2 \\
      --search-weights --choose-once --output runs/fair
  g2netpl compare --methods an,g2netpl --settings sspl:0.2 --seeds 0,1 --epochs 12 \\
      --learning-rates 3e-3 --batch-sizes 32 --output runs/scenes

Without --features the data are the built-in scenes, and the network a small CNN.
For every method, setting and seed the learning rate and batch size are chosen on validation; with
--search-weights three values of each method's main weight are tried too. Every training goes
through all its epochs; none is stopped at equilibrium, as g2netpl train may. results.json has the
chosen rows, results.md the table, cells.jsonl every training with its history, a line each, and
report.html is a page of all of it. What was broken off goes on with --resume.
"""

import argparse
import os


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    add = parser.add_argument
    add("--features", metavar="DIR", help="folder with train, test and meta.npz; without: scenes")
    add(
        "--methods",
        required=True,
        help="names, each with changes if need be: an,epr:regulariser=0.1",
    )
    add(
        "--settings",
        required=True,
        help="full fspl sspl:0.2 positives:1+1 known:0.1 biased:frequency",
    )
    add("--seeds", default="0,1,2", help="each drives mask, split, start and order (0,1,2)")
    add("--output", required=True, metavar="OUT", help="folder for results.json and cells.jsonl")
    add("--epochs", type=int, default=10, help="epochs per training (10)")
    add("--learning-rates", default="1e-3,3e-4", help="Adam's, chosen on validation (1e-3,3e-4)")
    add("--batch-sizes", default="64", help="chosen on validation too (64)")
    add("--hidden", type=int, default=0, help="width of a hidden layer; 0: linear (0)")
    add("--set", action="append", default=[], metavar="METHOD.KEY=VALUE", help="change an option")
    add(
        "--expected-positives",
        default="truth",
        metavar="K",
        help="truth (the training truth's mean, as in the protocol), estimate, or a number",
    )
    add("--jobs", type=int, default=os.cpu_count() or 1, help="trainings at a time (all cores)")
    add("--search-weights", action="store_true", help="try 3 values of each method's main weight")
    add(
        "--choose-once",
        action="store_true",
        help="choose on the first seed alone, and train the other seeds with that",
    )
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--resume", action="store_true", help="go on with the comparison in OUT")
    again.add_argument("--overwrite", action="store_true", help="replace the comparison in OUT")


def run(flags: argparse.Namespace) -> None:
    """Train all cells, write the files, print the table."""
    from pathlib import Path

    from rich.console import Console

    from g2netpl.commands.parsing import expected_positives, split_changes, split_list
    from g2netpl.comparison import choose
    from g2netpl.comparison_report import write_comparison_report
    from g2netpl.contest import Comparison, load_contest
    from g2netpl.disk import write_json
    from g2netpl.errors import InputError
    from g2netpl.runs import begin_or_resume
    from g2netpl.sweep import in_memory, sweep
    from g2netpl.tables import results_markdown, results_table

    changes = split_changes(flags.set)
    methods = split_list("--methods", flags.methods, str)
    for method, key, _ in changes:
        if method is None or method not in {name.split(":")[0] for name in methods}:
            raise InputError(
                f"--set {method}.{key}: expected one of the compared methods, then .key"
            )
    comparison = Comparison(
        features=flags.features,
        methods=methods,
        settings=split_list("--settings", flags.settings, str),
        seeds=split_list("--seeds", flags.seeds, int),
        learning_rates=split_list("--learning-rates", flags.learning_rates, float),
        batch_sizes=split_list("--batch-sizes", flags.batch_sizes, int),
        epochs=flags.epochs,
        hidden=flags.hidden,
        expected_positives=expected_positives(flags.expected_positives),
        changes=tuple((method or "", key, value) for method, key, value in changes),
        search_weights=flags.search_weights,
        choose_once=flags.choose_once,
    )
    comparison.check(load_contest(flags.features))  # mistakes show before anything is written
    folder = Path(flags.output)
    description = {key: value for key, value in vars(flags).items() if key not in _NOT_KEPT}
    begin_or_resume(folder, "compare", description, resume=flags.resume, overwrite=flags.overwrite)
    console = Console(markup=False, soft_wrap=True)
    cells = sweep(comparison, folder, in_memory(flags.jobs), console)
    results = choose(cells)
    write_json(folder / "results.json", results)
    (folder / "results.md").write_text(results_markdown(results), encoding="utf-8")
    console.print(results_table(results))
    console.print(f"written to {folder}; open {write_comparison_report(folder)}", highlight=False)


_NOT_KEPT = {"execute", "output", "jobs", "resume", "overwrite"}
