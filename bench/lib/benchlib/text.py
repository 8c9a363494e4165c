# SPDX-License-Identifier: BSD-3-Clause
"""Tables as plain text and as CSV files."""

import csv


def aligned(lines, texts=1):
    """Lines of cells with aligned columns; the first `texts` columns to the left."""
    lines = [[str(cell) for cell in line] for line in lines]
    widths = [max(len(line[index]) for line in lines) for index in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if index < texts else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def write_csv(path, lines):
    """Lines of cells into a CSV file."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(lines)
