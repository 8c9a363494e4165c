# SPDX-License-Identifier: BSD-3-Clause
"""Tables as plain text."""


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
