package reconcile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ReportError says what is wrong with the file of a report, and what to do.
type ReportError struct{ Problem, Want string }

func (e *ReportError) Error() string { return "the report " + e.Problem }

// Hint says what to do instead.
func (e *ReportError) Hint() string { return e.Want }

const makeReport = "give a file that dlockctl reconcile --report FILE.json wrote"

// Digested is the report with the digest that [ReadReport] holds its JSON to. It keeps
// nobody from making another one: it finds what was edited, cut or mixed up.
func (r Report) Digested() (Report, error) {
	text, err := json.Marshal(r)
	if err == nil {
		r.Digest, err = digestOf(text)
	}
	if err != nil {
		return r, fmt.Errorf("digest the report: %w", err)
	}
	return r, nil
}

// ReadReport reads a report from JSON, however it is indented and escaped, and checks
// that it is as it was written. It returns [*ReportError] for what is none, or is not.
func ReadReport(from io.Reader) (Report, error) {
	text, err := io.ReadAll(from)
	if err != nil {
		return Report{}, fmt.Errorf("read the report: %w", err)
	}
	var report Report
	refuse := func(want, problem string, args ...any) (Report, error) {
		return Report{}, &ReportError{Problem: fmt.Sprintf(problem, args...), Want: want}
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return refuse(makeReport, "is none: %v", err)
	}
	if report.RunID == "" || report.Outcome == "" {
		return refuse(makeReport, "is none: it names no run")
	}
	if report.Digest == "" {
		return refuse(makeReport, "has no digest: it was edited, or an earlier version wrote it")
	}
	if digest, err := digestOf(text); err != nil || digest != report.Digest {
		return refuse("take the copy that was put away when it was made, or check again: dlockctl reconcile --report FILE.json",
			"of run %s is not as it was written: its digest differs", report.RunID)
	}
	return report, nil
}

// digestOf is the SHA-256 of a JSON object without its member digest: of what it says,
// and in which order, however it is written.
func digestOf(text []byte) (string, error) {
	sum := sha256.New()
	in := json.NewDecoder(bytes.NewReader(text))
	if _, err := in.Token(); err != nil { // the brace
		return "", fmt.Errorf("take the report apart: %w", err)
	}
	for in.More() {
		key, err := in.Token()
		var value json.RawMessage
		if err == nil {
			err = in.Decode(&value)
		}
		if err == nil && key != "digest" {
			err = errors.Join(addToken(sum, key), addTokens(sum, value))
		}
		if err != nil {
			return "", fmt.Errorf("take the report apart: %w", err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// addTokens adds the tokens of a value.
func addTokens(sum io.Writer, value []byte) error {
	in := json.NewDecoder(bytes.NewReader(value))
	in.UseNumber() // digit for digit
	for {
		token, err := in.Token()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err == nil:
			err = addToken(sum, token)
		}
		if err != nil {
			return err // digestOf says what was being done
		}
	}
}

// addToken adds a token with its kind and length, so that no two texts add up to one sum.
func addToken(sum io.Writer, token json.Token) error {
	text := fmt.Sprint(token)
	_, err := fmt.Fprintf(sum, "%T %d %s\n", token, len(text), text)
	return err
}
