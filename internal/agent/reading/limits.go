package reading

import "strings"

// Limit is what is expected of GPUs of a model. Zero asks for nothing.
type Limit struct {
	// Model is a part of the product's name as nvidia-smi tells it.
	Model string `json:"model"`
	// MinPCIe is what copies from host to device must reach, in GB/s.
	MinPCIe float64 `json:"minPCIe,omitempty"`
	// LinkGen and LinkWidth are of the PCIe link.
	LinkGen   int `json:"linkGen,omitempty"`
	LinkWidth int `json:"linkWidth,omitempty"`
	// MaxCelsius is the temperature above which it is warned.
	MaxCelsius int `json:"maxCelsius,omitempty"`
}

// Limits are of several models; the first whose name fits counts.
type Limits []Limit

// For is what is expected of a model.
func (l Limits) For(model string) Limit {
	for _, one := range l {
		if one.Model != "" && strings.Contains(strings.ToLower(model), strings.ToLower(one.Model)) {
			return one
		}
	}
	return Limit{}
}

// DefaultLimits are those where nobody says others. Links: what the products' data sheets say. Bandwidth: a quarter
// of what the link can carry, below which a copy is slow for a reason that is no noise. Temperature: some degrees
// below that at which the products slow themselves down. Names that contain others stand before them.
func DefaultLimits() Limits {
	const gen4, gen5 = 7.8, 15.7 // a quarter of 31.5 and 63 GB/s
	return Limits{
		{Model: "B200", MinPCIe: gen5, LinkGen: 5, LinkWidth: 16, MaxCelsius: 85},
		{Model: "H200", MinPCIe: gen5, LinkGen: 5, LinkWidth: 16, MaxCelsius: 85},
		{Model: "H100", MinPCIe: gen5, LinkGen: 5, LinkWidth: 16, MaxCelsius: 85},
		{Model: "A100", MinPCIe: gen4, LinkGen: 4, LinkWidth: 16, MaxCelsius: 85},
	}
}
