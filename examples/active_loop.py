"""An active loop: train, ask about the most useful labels, take the answers, train again.

Each round trains a classifier, lets g2netpl choose the questions ("does this photo show a four?"),
answers them from a file, adds the answers to the labels and continues. The file simulates a person:
`g2netpl review RUN` takes the same answers on a page in the browser.

    python examples/active_loop.py
    python examples/active_loop.py --order random       the same, with random questions

It writes a run folder per round below `active-example`, with the answers in `review.jsonl`, and
the growing label file `labels-1.csv`, `labels-2.csv`, …
"""

import argparse
from contextlib import closing
from pathlib import Path

from g2netpl import (
    LabelTable,
    ReviewSession,
    RunConfig,
    Setting,
    make_scenes,
    observe,
    read_labels,
    reviewed_labels,
    train,
    write_labels,
    write_scenes,
)


def main() -> None:
    """Some rounds of training and answering."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scenes", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--questions", type=int, default=200, help="per round")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--order", default="useful", help="useful, disagreement or random")
    parser.add_argument("--output", type=Path, default=Path("active-example"))
    flags = parser.parse_args()

    photos = flags.output / "photos"
    write_scenes(make_scenes(flags.scenes, test=flags.scenes), photos)
    answers = read_labels(photos / "train.csv")  # what the person knows
    labels = observe(answers, Setting.parse("sspl:0.3"), seed=0)
    expected = None
    for number in range(1, flags.rounds + 1):
        path, folder = flags.output / f"labels-{number}.csv", flags.output / f"run-{number}"
        write_labels(labels, path)
        run = train(
            RunConfig(
                labels=path,
                images=photos,
                test_labels=photos / "test.csv",
                output=folder,
                backbone="tiny",
                image_size=64,
                augment="plain",
                learning_rate=3e-3,
                batch_size=32,
                epochs=flags.epochs,
                validation=0,  # labels that were asked for are no fair sample to choose by
                expected_positives=expected or "estimate",
                workers=0,
            )
        )
        expected = run.expected_positives  # of the first round: later labels are a biased sample
        print(f"round {number}: {labels.known} labels, test mAP {run.result['test_map']:.1%}")
        if number < flags.rounds:
            answer(folder, answers, flags.order, flags.questions)
            labels = reviewed_labels(folder)


def answer(folder: Path, answers: LabelTable, order: str, count: int) -> None:
    """Answer the best questions about a run; each answer is on the disk when `decide` returns."""
    row_of = {name: row for row, name in enumerate(answers.images)}
    with closing(ReviewSession(folder)) as review:
        for question in review.questions(order, count):
            row, (tag,) = question["row"], question["tags"]
            truth = answers.values[row_of[question["image"]], tag["column"]]
            name = f"{question['image']} {tag['name']}"
            review.decide(name, row, tag["column"], "yes" if truth == 1 else "no", order)
        done = review.progress()
    print(f"  {done['yes']} times yes, {done['no']} times no")


if __name__ == "__main__":
    main()
