import time

time.sleep(3600)
print(0)
