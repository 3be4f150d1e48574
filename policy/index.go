package policy

// index finds the first entry of a sorted table that matches.
type index struct{}

func newIndex([]entry) index { return index{} }

// find returns the place of the first entry before limit that matches, limit if
// there is none.
func (index) find(entries []entry, value string, limit int) int {
	for i := range entries[:limit] {
		if entries[i].glob.match(value) {
			return i
		}
	}
	return limit
}
