package words

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/karp-sh/karp/pkg/units"
)

const mebibyte = 1 << 20

// Amount spells a quantity of a resource: cpu in cores or millicores, memory and disk in Mi, everything else as a count.
func Amount(resource string, n int64) string {
	switch {
	case resource == units.CPU:
		if n%1000 == 0 {
			return strconv.FormatInt(n/1000, 10)
		}
		return strconv.FormatInt(n, 10) + "m"
	case bytes(resource) && n != 0:
		if n%mebibyte == 0 {
			return strconv.FormatInt(n/mebibyte, 10) + "Mi"
		}
		return strconv.FormatFloat(float64(n)/mebibyte, 'f', 1, 64) + "Mi"
	}
	return strconv.FormatInt(n, 10)
}

// Quantity spells an amount exactly, as a Kubernetes quantity.
func Quantity(resource string, n int64) string {
	if bytes(resource) && n%mebibyte != 0 {
		return strconv.FormatInt(n, 10)
	}
	return Amount(resource, n)
}

func bytes(resource string) bool {
	return resource == units.Memory || resource == units.EphemeralStorage || strings.HasPrefix(resource, "hugepages-")
}

// Duration cuts to at most two units, to whole days from 48 hours on: "42s", "2m10s", "1h18m", "3d".
func Duration(d time.Duration) string {
	d = d.Truncate(time.Second)
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return two(int(d.Minutes()), "m", int(d.Seconds())%60, "s")
	case d < 48*time.Hour:
		return two(int(d.Hours()), "h", int(d.Minutes())%60, "m")
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

func two(a int, unitA string, b int, unitB string) string {
	if b == 0 {
		return strconv.Itoa(a) + unitA
	}
	return strconv.Itoa(a) + unitA + strconv.Itoa(b) + unitB
}

// Clock spells an instant as seen at another: the time alone on the same day, else with the date. Seconds appear only if there are any.
func Clock(t, at time.Time, zone *time.Location) string {
	t, at = t.In(zone), at.In(zone)
	layout := "15:04"
	if t.Second() != 0 {
		layout = "15:04:05"
	}
	if t.Format(time.DateOnly) != at.Format(time.DateOnly) {
		layout = "2006-01-02 " + layout
	}
	return t.Format(layout)
}

// Percent spells a fraction with one decimal: "0.6 %".
func Percent(f float64) string { return strconv.FormatFloat(f*100, 'f', 1, 64) + " %" }

// List joins names with commas and a last "and".
func List(names []string) string { return series(names, "and") }

// Either joins names with commas and a last "or".
func Either(names []string) string { return series(names, "or") }

func series(names []string, word string) string {
	switch len(names) {
	case 0:
		return "nothing"
	case 1:
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " " + word + " " + names[len(names)-1]
}

// Count spells a number with its noun: "1 node", "3 nodes".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
