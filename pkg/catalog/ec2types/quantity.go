package ec2types

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// ParseBytes reads a Kubernetes quantity such as "1.5Gi" or "64T" and returns it in base units (bytes, counts), rounded up.
func ParseBytes(text string) (int64, error) { return parseQuantity(text, 1) }

// parseQuantity returns the quantity times scale, rounded up.
func parseQuantity(text string, scale int64) (int64, error) {
	number, factor, err := splitQuantity(text)
	if err != nil {
		return 0, err
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok || number == "" || strings.ContainsAny(number, "/_xXeEpPoObB") {
		return 0, fmt.Errorf("%q is not a quantity", text)
	}
	r.Mul(r, factor).Mul(r, new(big.Rat).SetInt64(scale))
	return ceil(r, text)
}

func ceil(r *big.Rat, text string) (int64, error) {
	quotient, remainder := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if remainder.Sign() > 0 {
		quotient.Add(quotient, big.NewInt(1))
	}
	if !quotient.IsInt64() {
		return 0, fmt.Errorf("%q is out of range", text)
	}
	return quotient.Int64(), nil
}

// splitQuantity separates the number from its suffix, which is binary (Ki), decimal (k) or an exponent (e3).
func splitQuantity(text string) (number string, factor *big.Rat, err error) {
	end := strings.LastIndexAny(text, "0123456789.") + 1
	if i := strings.IndexAny(text, "eE"); i >= 0 && i < end {
		exponent, err := strconv.Atoi(text[i+1:])
		if err != nil || exponent < -18 || exponent > 18 {
			return "", nil, fmt.Errorf("%q is not a quantity", text)
		}
		return text[:i], power(10, exponent), nil
	}
	number, suffix := text[:end], text[end:]
	if p := strings.Index("KiMiGiTiPiEi", suffix); len(suffix) == 2 && p >= 0 && p%2 == 0 {
		return number, power(1024, p/2+1), nil
	}
	if suffix == "" {
		return number, power(10, 0), nil
	}
	if p := strings.Index("num.kMGTPE", suffix); len(suffix) == 1 && p >= 0 && suffix != "." {
		return number, power(1000, p-3), nil
	}
	return "", nil, fmt.Errorf("%q is not a quantity", text)
}

func power(base int64, exponent int) *big.Rat {
	magnitude := exponent
	if magnitude < 0 {
		magnitude = -magnitude
	}
	p := new(big.Int).Exp(big.NewInt(base), big.NewInt(int64(magnitude)), nil)
	if exponent < 0 {
		return new(big.Rat).SetFrac(big.NewInt(1), p)
	}
	return new(big.Rat).SetInt(p)
}

// signal reads an eviction threshold: a quantity, or a percentage of capacity rounded up, of which 100% means no threshold.
func signal(text string, capacity int64) (int64, error) {
	percent, ok := strings.CutSuffix(text, "%")
	if !ok {
		return ParseBytes(text)
	}
	r, ok := new(big.Rat).SetString(percent)
	if !ok || strings.ContainsAny(percent, "/_xXeEpPoObB") || r.Sign() < 0 || r.Cmp(big.NewRat(100, 1)) > 0 {
		return 0, fmt.Errorf("%q is not a percentage", text)
	}
	if r.Cmp(big.NewRat(100, 1)) == 0 {
		return 0, nil
	}
	return ceil(r.Mul(r, big.NewRat(capacity, 100)), text)
}
