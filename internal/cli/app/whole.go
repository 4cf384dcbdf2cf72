package app

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
)

// WholeVar adds a flag of a whole number, which is read in its one decimal form:
// pflag's own reads 0100 as 64, and that may be somebody's money.
func WholeVar[N int | int64](flags *pflag.FlagSet, at *N, name string, value N, usage string) {
	*at = value
	flags.Var(whole[N]{at}, name, usage)
}

type whole[N int | int64] struct{ at *N }

// String returns the number, 0 for the zero value, which pflag compares with.
func (w whole[N]) String() string {
	if w.at == nil {
		return "0"
	}
	return strconv.FormatInt(int64(*w.at), 10)
}

// Set reads the number.
func (w whole[N]) Set(text string) error {
	n, err := strconv.ParseInt(text, 10, strconv.IntSize)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return errors.New("it does not fit in 64 bits")
	case err != nil || strconv.FormatInt(n, 10) != text:
		return errors.New("it is not a whole number in decimal digits, such as 100")
	}
	*w.at = N(n)
	return nil
}

// Type names the value in --help.
func (w whole[N]) Type() string { return fmt.Sprintf("%T", *new(N)) }
