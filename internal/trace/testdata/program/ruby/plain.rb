def load(name)
  raise ArgumentError, "no #{name}"
end

def main
  load("file")
end

main
