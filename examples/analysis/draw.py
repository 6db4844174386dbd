def draw(lines):
    """Draws the days' means as dots, and lines through them: with matplotlib, or as an SVG without it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        points = "".join(f'<circle cx="{9 * d + 20}" cy="{280 - 5 * h:.0f}" r="3"/>' for d, h in mean.items())
        paths = "".join('<polyline fill="none" stroke="red" points="' + " ".join(f"{9 * d + 20},{280 - 5 * f(d):.0f}" for d in range(45)) + '"/>' for f in lines)
        display({"image/svg+xml": f'<svg xmlns="http://www.w3.org/2000/svg" width="440" height="300">{points}{paths}</svg>'}, raw=True)
    else:
        plt.scatter(list(mean), list(mean.values()))
        for f in lines:
            plt.plot(range(45), [f(d) for d in range(45)], color="red")
        plt.show()


draw([fit] if "fit" in globals() else [])
