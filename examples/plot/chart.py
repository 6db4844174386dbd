import collections
import csv
import struct
import zlib

WIDTH, HEIGHT, EDGE = 480, 320, 24
WHITE, GREY, BLUE, RED = (255, 255, 255), (221, 221, 221), (70, 110, 180), (200, 70, 60)


def png(rows):
    """Encodes a picture as a PNG file, without a library."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    pixels = b"".join(b"\0" + bytes(value for pixel in row for value in pixel) for row in rows)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(pixels, 9)) + chunk(b"IEND", b"")


revenue = collections.Counter()
with open("orders.csv", newline="") as orders:
    for order in csv.DictReader(orders):
        revenue[order["region"]] += int(order["units"]) * float(order["price"])

picture = [[WHITE] * WIDTH for _ in range(HEIGHT)]


def fill(left, top, right, bottom, colour):
    for y in range(top, bottom):
        picture[y][left:right] = [colour] * (right - left)


most = max(revenue.values())
scale = (HEIGHT - 2 * EDGE) / most
for line in range(0, int(most) + 1, 250):
    y = round(HEIGHT - EDGE - line * scale)
    fill(EDGE, y, WIDTH - EDGE, y + 1, GREY)
step = (WIDTH - 2 * EDGE) // len(revenue)
for i, (region, amount) in enumerate(revenue.most_common()):
    left = EDGE + i * step + step // 6
    fill(left, round(HEIGHT - EDGE - amount * scale), left + step * 2 // 3, HEIGHT - EDGE, BLUE if i else RED)
    print(f"{region:6}{amount:9.2f}")

with open("revenue.png", "wb") as file:
    file.write(png(picture))
