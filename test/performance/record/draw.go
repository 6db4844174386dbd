package main

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"
)

// The measurements of the drawing. The axis is logarithmic, from a tenth of a Belljar run to a thousand of them.
const (
	width, left, right = 760.0, 230.0, 40.0
	top, pitch, bottom = 78.0, 34.0, 46.0
	least, most        = 0.1, 1000.0
)

// place returns the position of a ratio on the axis.
func place(ratio float64) float64 {
	ratio = min(max(ratio, least), most)
	return left + (width-left-right)*math.Log10(ratio/least)/math.Log10(most/least)
}

// draw shows the time that each other way takes to run /bin/true, in Belljar runs: the last benchmark as bars, the earlier ones as
// dots.
func draw(rows []row) []byte {
	last := rows[len(rows)-1]
	measures, earlier := sorted(rows)
	height := top + pitch*float64(len(measures)) + bottom
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %g %g" role="img" font-family="system-ui, sans-serif" font-size="14">
<title>Time to run /bin/true in isolation, compared with Belljar</title>
<style>
  .page { fill: #ffffff } .text { fill: #1f2328 } .quiet { fill: #59636e } .line { stroke: #d1d9e0 }
  .bar { fill: #a8b3bf } .own { fill: #0a7d55 } .dot { fill: #59636e; fill-opacity: 0.45 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .text { fill: #f0f6fc } .quiet { fill: #9198a1 } .line { stroke: #3d444d }
    .bar { fill: #59636e } .own { fill: #2fbf8a } .dot { fill: #c9d1d9; fill-opacity: 0.45 }
  }
</style>
<rect class="page" width="100%%" height="100%%" rx="6"/>
<text class="text" x="16" y="28" font-size="16" font-weight="600">Time to run /bin/true, in times of a Belljar run</text>
<text class="quiet" x="16" y="50" font-size="12">%s, %s, commit %s. Median; logarithmic scale; shorter is faster. Dots: earlier benchmarks.</text>
`, width, height, width, height, escaped(last.date), escaped(last.machine), escaped(last.commit))

	for _, mark := range []float64{0.1, 1, 10, 100, 1000} {
		x := place(mark)
		fmt.Fprintf(&b, `<line class="line" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/>`+"\n", x, x, top-6, height-bottom+6)
		fmt.Fprintf(&b, `<text class="quiet" x="%.1f" y="%g" font-size="12" text-anchor="middle">%g×</text>`+"\n", x, height-bottom+24, mark)
	}
	for i, r := range measures {
		y := top + pitch*float64(i)
		class := "bar"
		if strings.HasPrefix(r.measure, "belljar") { // in process, and as a command
			class = "own"
		}
		fmt.Fprintf(&b, `<text class="text" x="%g" y="%.1f" text-anchor="end">%s</text>`+"\n", left-12, y+19, escaped(r.measure))
		fmt.Fprintf(&b, `<rect class="%s" x="%g" y="%.1f" width="%.1f" height="20" rx="3"/>`+"\n", class, left, y+4, place(r.ratio)-left)
		end := place(slices.Max(append([]float64{r.ratio}, earlier[r.measure]...)))
		fmt.Fprintf(&b, `<text class="text" x="%.1f" y="%.1f" font-weight="600">%s</text>`+"\n", end+8, y+19, times(r.ratio))
		for _, ratio := range earlier[r.measure] {
			fmt.Fprintf(&b, `<circle class="dot" cx="%.1f" cy="%.1f" r="3"/>`+"\n", place(ratio), y+14)
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// sorted returns the last benchmark's rows by their ratio, and the ratios of earlier benchmarks by measure.
func sorted(rows []row) (last []row, earlier map[string][]float64) {
	end := rows[len(rows)-1]
	earlier = map[string][]float64{}
	for i := len(rows) - 1; i >= 0; i-- {
		r := rows[i]
		known := slices.ContainsFunc(last, func(l row) bool { return l.measure == r.measure })
		if r.commit == end.commit && r.date == end.date && r.machine == end.machine && !known {
			last = append(last, r)
		} else {
			earlier[r.measure] = append(earlier[r.measure], r.ratio)
		}
	}
	slices.SortFunc(last, func(a, b row) int { return cmp.Compare(a.ratio, b.ratio) })
	return last, earlier
}

// times writes a ratio with its significant digits.
func times(ratio float64) string {
	if ratio < 10 {
		return fmt.Sprintf("%.2g×", ratio)
	}
	return fmt.Sprintf("%.0f×", ratio)
}

func escaped(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(s)) // a strings.Builder never fails
	return b.String()
}
