import json, math

mean = {int(day): height for day, height in json.load(open("mean.json")).items()}
logs = [(math.log(d), math.log(h)) for d, h in mean.items() if d > 0]
x, y = sum(a for a, _ in logs) / len(logs), sum(b for _, b in logs) / len(logs)
slope = sum((a - x) * (b - y) for a, b in logs) / sum((a - x) ** 2 for a, _ in logs)
fit = lambda day: math.exp(y + slope * (math.log(day) - x)) if day else 0
{"error": round((sum((fit(d) - h) ** 2 for d, h in mean.items()) / len(mean)) ** 0.5, 2)}
