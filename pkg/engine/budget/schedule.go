package budget

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Schedule is when a budget begins to apply: a cron expression of five fields, or one of the names @annually, @yearly, @monthly, @weekly,
// @daily, @midnight and @hourly. It is evaluated in UTC.
type Schedule struct {
	minute, hour, day, month, weekday uint64
	// anyDay and anyWeekday tell that the field is * or ?: if neither is, a date has to match one of the two (rules 7).
	anyDay, anyWeekday bool
}

type field struct {
	name     string
	min, max int
	names    []string
}

const (
	months   = "jan feb mar apr may jun jul aug sep oct nov dec"
	weekdays = "sun mon tue wed thu fri sat"
)

// ParseSchedule reads a schedule.
func ParseSchedule(text string) (Schedule, error) {
	expanded, named := map[string]string{"@annually": "0 0 1 1 *", "@yearly": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
		"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *"}[text]
	if !named {
		expanded = text
	}
	if strings.HasPrefix(expanded, "@") {
		return Schedule{}, fmt.Errorf("schedule %q: there is no such name; use @yearly, @monthly, @weekly, @daily or @hourly", text)
	}
	if strings.HasPrefix(expanded, "TZ=") || strings.HasPrefix(expanded, "CRON_TZ=") {
		return Schedule{}, fmt.Errorf("schedule %q: time zones are not supported; write it in UTC", text)
	}
	words := strings.Fields(expanded)
	if len(words) != 5 {
		return Schedule{}, fmt.Errorf("schedule %q: want minute, hour, day of month, month and day of week, not %d fields", text, len(words))
	}
	s := Schedule{anyDay: wildcard(words[2]), anyWeekday: wildcard(words[4])}
	for i, into := range []*uint64{&s.minute, &s.hour, &s.day, &s.month, &s.weekday} {
		var err error
		if *into, err = fieldAt(i).parse(words[i]); err != nil {
			return Schedule{}, fmt.Errorf("schedule %q: %w", text, err)
		}
	}
	return s, nil
}

func wildcard(word string) bool { return word == "*" || word == "?" }

func fieldAt(i int) field {
	return [...]field{{"minute", 0, 59, nil}, {"hour", 0, 23, nil}, {"day of month", 1, 31, nil}, {"month", 1, 12, strings.Fields(months)},
		{"day of week", 0, 6, strings.Fields(weekdays)}}[i]
}

// parse returns the bits of the values that a list of ranges names.
func (f field) parse(word string) (uint64, error) {
	var bits uint64
	for part := range strings.SplitSeq(word, ",") {
		b, err := f.parseRange(part)
		if err != nil {
			return 0, fmt.Errorf("%s %q: %w", f.name, word, err)
		}
		bits |= b
	}
	return bits, nil
}

// parseRange reads "*", "5", "1-5" and each of them with a step: "*/10", "5/10" (from 5 on), "1-5/2".
func (f field) parseRange(part string) (uint64, error) {
	span, stepText, stepped := strings.Cut(part, "/")
	step := 1
	if stepped {
		var err error
		if step, err = strconv.Atoi(stepText); err != nil || step < 1 {
			return 0, fmt.Errorf("step %q is not a positive number", stepText)
		}
	}
	low, high := f.min, f.max
	if !wildcard(span) {
		from, to, ranged := strings.Cut(span, "-")
		var err error
		if low, err = f.value(from); err != nil {
			return 0, err
		}
		switch {
		case ranged:
			if high, err = f.value(to); err != nil {
				return 0, err
			}
		case !stepped:
			high = low
		}
	}
	if low > high {
		return 0, errors.New("the range ends before it begins")
	}
	var bits uint64
	for v := low; v <= high; v += step {
		bits |= 1 << v
	}
	return bits, nil
}

func (f field) value(word string) (int, error) {
	for i, n := range f.names {
		if strings.EqualFold(n, word) {
			return f.min + i, nil
		}
	}
	n, err := strconv.ParseUint(word, 10, 8)
	if err != nil || int(n) < f.min || int(n) > f.max {
		return 0, fmt.Errorf("%q is not between %d and %d", word, f.min, f.max)
	}
	return int(n), nil
}

// horizon is how far Next looks: a schedule without a hit in five years has none.
const horizon = 5

// Next returns the first hit strictly after an instant; ok is false if there is none within five years.
func (s *Schedule) Next(after time.Time) (_ time.Time, ok bool) {
	after = after.UTC()
	t := after.Truncate(time.Minute).Add(time.Minute)
	for last := after.Year() + horizon; t.Year() <= last; {
		switch {
		case s.month&(1<<t.Month()) == 0:
			t = time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		case !s.onDate(t):
			t = time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, time.UTC)
		case s.hour&(1<<t.Hour()) == 0:
			t = t.Truncate(time.Hour).Add(time.Hour)
		case s.minute&(1<<t.Minute()) == 0:
			t = t.Add(time.Minute)
		default:
			return t, true
		}
	}
	return time.Time{}, false
}

func (s *Schedule) onDate(t time.Time) bool {
	day, weekday := s.day&(1<<t.Day()) != 0, s.weekday&(1<<t.Weekday()) != 0
	if s.anyDay || s.anyWeekday {
		return day && weekday
	}
	return day || weekday
}
