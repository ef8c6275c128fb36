package strict

import "strings"

// Nearest returns the name that was probably meant, or "". It may differ in
// case, or in a third of its letters, at most four.
func Nearest(name string, known []string) string {
	best, distance := "", min(4, len(name)/3)+1
	for _, k := range known {
		if strings.EqualFold(k, name) {
			return k
		}
		if n := edits(strings.ToLower(name), strings.ToLower(k)); n < distance {
			best, distance = k, n
		}
	}
	return best
}

// edits is the number of letters to insert, delete or replace to get from a to
// b (Levenshtein).
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
