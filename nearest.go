package belljar

// Nearest returns the one of known that is most like name, for a "did you mean", or "" if none is within so many letters
// added, dropped or changed. How many are too many depends on how much the names are alike.
func Nearest(name string, within int, known []string) string {
	if len(name) > 64 {
		return ""
	}
	best, least := "", within+1
	for _, k := range known {
		if d := distance(name, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is how many bytes must be added, dropped or changed to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
