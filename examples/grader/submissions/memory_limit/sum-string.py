text = 'x' * (1 << 20)
while True:
    text += text
