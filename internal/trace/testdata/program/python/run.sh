# Runs programs that fail and keeps what each prints. It is meant for a sandbox.
mkdir -p out
keep() {
  name=$1
  shift
  "$@" >"out/$name.txt" 2>&1
}
for f in plain chain syntax imports deep group note library unicode quoted thread local; do
  keep "$f" python3 -B "$f.py"
done
cat >test_part.py <<'END'
import load


def test_ratio():
    x = 1
    assert load.ratio(x, 2) == 3


def test_raises():
    load.ratio(1, 0)
END
keep pytest python3 -B -m pytest -p no:cacheprovider -q test_part.py
keep pytest-short python3 -B -m pytest -p no:cacheprovider -q --tb=short test_part.py
keep pytest-native python3 -B -m pytest -p no:cacheprovider -q --tb=native test_part.py
keep unittest python3 -B -m unittest -q load_unit
