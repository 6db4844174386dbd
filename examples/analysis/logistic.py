import json, math

mean = {int(day): height for day, height in json.load(open("mean.json")).items()}
curve = lambda top, middle, width: lambda day: top / (1 + math.exp((middle - day) / width))
error = lambda f: (sum((f(d) - h) ** 2 for d, h in mean.items()) / len(mean)) ** 0.5
best, step = [40.0, 15.0, 5.0], 4.0
while step > 0.001:
    others = [[v + s * step * (i == j) for j, v in enumerate(best)] for i in range(3) for s in (-1, 1)]
    nearest = min((o for o in others if o[2] > 0.5), key=lambda o: error(curve(*o)))
    if error(curve(*nearest)) < error(curve(*best)):
        best = nearest
    else:
        step /= 2
fit = curve(*best)
{"error": round(error(fit), 2)}
