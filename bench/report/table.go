// Package report turns measurements into Markdown.
package report

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Table is a Markdown table.
type Table struct {
	Head []string
	Rows [][]string
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// String is the table, with a line end after each row.
func (t *Table) String() string {
	var b strings.Builder
	line := func(cells []string) {
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	line(t.Head)
	b.WriteString(strings.Repeat("| --- ", len(t.Head)) + "|\n")
	for _, row := range t.Rows {
		line(row)
	}
	return b.String()
}

// Number is v with three digits that say something; "–" of what is not there.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a >= 1000:
		return thousands(math.Round(v))
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

func thousands(v float64) string {
	digits := fmt.Sprintf("%.0f", v)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Millis is d in milliseconds.
func Millis(d time.Duration) string { return Number(float64(d) / float64(time.Millisecond)) }

// Micros is d in microseconds.
func Micros(d time.Duration) string { return Number(float64(d) / float64(time.Microsecond)) }

// Spread is the median of values and their least.
func Spread(median, least float64) string {
	if math.IsNaN(median) {
		return "–"
	}
	return fmt.Sprintf("%s (%s)", Number(median), Number(least))
}

// Section puts text between the marks of the section called name, in place of what
// stands there, or else at the end of document.
func Section(document, name, text string) string {
	begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->\n"
	before, rest, found := strings.Cut(document, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		before, after = document, ""
		if before != "" {
			before = strings.TrimRight(before, "\n") + "\n\n"
		}
	}
	return before + begin + strings.TrimRight(text, "\n") + "\n" + end + after
}
