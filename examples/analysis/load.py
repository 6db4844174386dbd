import csv

try:
    import pandas
except ImportError:
    pandas = None
if pandas is not None:
    rows = pandas.read_csv("growth.csv").to_dict("records")
    rows = [{**row, "height": None if row["height"] != row["height"] else row["height"]} for row in rows]
else:
    rows = [{"day": int(row["day"]), "plant": row["plant"], "height": float(row["height"] or 0) or None} for row in csv.DictReader(open("growth.csv"))]
print(len(rows), "rows of", sorted({row["plant"] for row in rows}))
