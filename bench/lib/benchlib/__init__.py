# SPDX-License-Identifier: BSD-3-Clause
"""What the benchmark drivers share: charts, and pages as HTML and Markdown."""
