package picture

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// style is how a cell looks. Colours are numbers of the 16 that every terminal has,
// -1 for the terminal's own.
type style struct {
	bold, faint, reverse bool
	fore, back           int
}

func plain() style { return style{fore: -1, back: -1} }

// run is text of one style, beginning at a column.
type run struct {
	style
	column int
	text   []rune
}

type row []run

// page is what was written so far.
type page struct {
	width, column int
	style         style
	rows          []row
	// ended says that the next character begins a row.
	ended bool
}

func newPage(width int) *page { return &page{width: width, style: plain(), ended: true} }

// write takes text, and cuts it at its line ends and, as a terminal does, where it
// reaches the width. Of the escape sequences it knows those that choose a colour or a
// weight, and the others are an error: they would be missing from the picture.
func (p *page) write(text string) error {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	for text != "" {
		rest, escaped := strings.CutPrefix(text, "\x1b[")
		if !escaped {
			r, size := utf8.DecodeRuneInString(text)
			if err := p.put(r); err != nil {
				return err
			}
			text = text[size:]
			continue
		}
		end := strings.IndexFunc(rest, unicode.IsLetter)
		if end < 0 || rest[end] != 'm' {
			return fmt.Errorf("draw %.20q: only colours and weights can be drawn", text)
		}
		if err := p.choose(rest[:end]); err != nil {
			return err
		}
		text = rest[end+1:]
	}
	return nil
}

func (p *page) put(r rune) error {
	if r != '\n' && unicode.IsControl(r) {
		return fmt.Errorf("draw %q: only printable characters can be drawn", r)
	}
	if p.ended || r != '\n' && p.column == p.width {
		p.rows, p.column, p.ended = append(p.rows, nil), 0, false
	}
	if r == '\n' {
		p.ended = true
		return nil
	}
	last := &p.rows[len(p.rows)-1]
	if n := len(*last); n > 0 && (*last)[n-1].style == p.style {
		(*last)[n-1].text = append((*last)[n-1].text, r)
	} else {
		*last = append(*last, run{style: p.style, column: p.column, text: []rune{r}})
	}
	p.column++
	return nil
}

// choose takes the parameters of one sequence.
func (p *page) choose(parameters string) error {
	codes := strings.Split(parameters, ";")
	for i := 0; i < len(codes); i++ {
		code, err := strconv.Atoi(codes[i])
		if codes[i] == "" {
			code, err = 0, nil
		}
		if err != nil {
			return fmt.Errorf("draw colour %q: %w", parameters, err)
		}
		// 38;5;N and 48;5;N name one of 256, of which the first 16 are these.
		if indexed := (code == 38 || code == 48) && i+2 < len(codes) && codes[i+1] == "5"; indexed {
			n, err := strconv.Atoi(codes[i+2])
			if err != nil || n < 0 || n > 15 {
				return fmt.Errorf("draw colour %q: only the first 16 can be drawn", parameters)
			}
			i, code = i+2, map[bool]int{true: 30, false: 90}[n < 8]+n%8+code-38
		}
		if !p.style.set(code) {
			return fmt.Errorf("draw colour %q: %d is not known", parameters, code)
		}
	}
	return nil
}

func (s *style) set(code int) (known bool) {
	switch {
	case code == 0:
		*s = plain()
	case code == 1:
		s.bold = true
	case code == 2:
		s.faint = true
	case code == 7:
		s.reverse = true
	case code == 22:
		s.bold, s.faint = false, false
	case code == 27:
		s.reverse = false
	case code >= 30 && code <= 37:
		s.fore = code - 30
	case code == 39:
		s.fore = -1
	case code >= 40 && code <= 47:
		s.back = code - 40
	case code == 49:
		s.back = -1
	case code >= 90 && code <= 97:
		s.fore = code - 90 + 8
	case code >= 100 && code <= 107:
		s.back = code - 100 + 8
	default:
		return false
	}
	return true
}

// trimmed is the run without the blanks at its ends that nobody would see.
func (r run) trimmed() run {
	if r.back >= 0 || r.reverse {
		return r
	}
	first := slices.IndexFunc(r.text, func(c rune) bool { return c != ' ' })
	if first < 0 {
		return run{}
	}
	last := len(r.text)
	for r.text[last-1] == ' ' {
		last--
	}
	r.column, r.text = r.column+first, r.text[first:last]
	return r
}
