"""Reads orders.csv, writes report.md for people and stats.json for programs."""

import csv
import json
from collections import defaultdict
from statistics import mean, median

with open("orders.csv", newline="") as f:
    orders = [(row["region"], row["product"], int(row["units"]) * float(row["price"])) for row in csv.DictReader(f)]

by_region = defaultdict(float)
by_product = defaultdict(float)
for region, product, value in orders:
    by_region[region] += value
    by_product[product] += value

values = [value for _, _, value in orders]
stats = {
    "orders": len(orders),
    "total": round(sum(values), 2),
    "mean": round(mean(values), 2),
    "median": round(median(values), 2),
    "by_region": {name: round(total, 2) for name, total in sorted(by_region.items())},
}
with open("stats.json", "w") as f:
    json.dump(stats, f, indent=2)

best = max(by_product, key=by_product.get)
with open("report.md", "w") as f:
    print(f"# {stats['orders']} orders, {stats['total']:.2f} in total\n", file=f)
    print("| region | value | share |\n|---|---:|---:|", file=f)
    for name, total in stats["by_region"].items():
        print(f"| {name} | {total:.2f} | {total / stats['total']:.0%} |", file=f)
    print(f"\nBest product: {best}.", file=f)

print(f"{stats['orders']} orders, {stats['total']:.2f} in total, best product {best}")
