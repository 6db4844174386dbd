#!/bin/sh
# A shell pipeline: make lines, sort, count, keep the best.
set -eu

seq 1 20000 | awk '{ n = $1; steps = 0; while (n != 1) { n = n % 2 ? 3 * n + 1 : n / 2; steps++ } print steps, $1 }' |
	sort -rn | head -n 3 | while read -r steps start; do
	echo "$start takes $steps steps to reach 1"
done
