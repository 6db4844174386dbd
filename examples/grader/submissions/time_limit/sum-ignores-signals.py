import signal

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGXCPU):
    signal.signal(number, signal.SIG_IGN)
while True:
    pass
