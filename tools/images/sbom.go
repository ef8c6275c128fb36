package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"
)

// spdx has the parts of SPDX 2.3 that say which Go modules a program was built from.
type spdx struct {
	Version       string         `json:"spdxVersion"`
	DataLicense   string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      spdxCreation   `json:"creationInfo"`
	Packages      []spdxPackage  `json:"packages"`
	Relationships []spdxRelation `json:"relationships"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID       string    `json:"SPDXID"`
	Name     string    `json:"name"`
	Version  string    `json:"versionInfo"`
	Location string    `json:"downloadLocation"`
	Analyzed bool      `json:"filesAnalyzed"`
	Refs     []spdxRef `json:"externalRefs"`
}

type spdxRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelation struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

// sbom lists what a Go program was built from, as it says of itself.
func sbom(path string, s *spec) ([]byte, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read what the program was built from: %w", err)
	}
	doc := spdx{
		Version:     "SPDX-2.3",
		DataLicense: "CC0-1.0",
		ID:          "SPDXRef-DOCUMENT",
		Name:        "mlbatch " + s.version,
		Creation: spdxCreation{
			Created:  s.created.UTC().Format(time.RFC3339),
			Creators: []string{"Tool: mlbatch-images"},
		},
	}
	main := module("SPDXRef-mlbatch", &debug.Module{Path: info.Main.Path, Version: s.version})
	doc.Packages = append(doc.Packages, main)
	doc.Relationships = append(doc.Relationships, spdxRelation{doc.ID, "DESCRIBES", main.ID})
	deps := append([]*debug.Module{{Path: "stdlib", Version: info.GoVersion}}, info.Deps...)
	for i, m := range deps {
		if m.Replace != nil {
			m = m.Replace
		}
		p := module(fmt.Sprintf("SPDXRef-module-%d", i), m)
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships, spdxRelation{main.ID, "DEPENDS_ON", p.ID})
	}
	// A document's name is its own: it is made from all that it says.
	said, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("write the list of modules: %w", err)
	}
	doc.Namespace = fmt.Sprintf("urn:mlbatch:sbom:%x", sha256.Sum256(said))
	return json.MarshalIndent(doc, "", " ")
}

func module(id string, m *debug.Module) spdxPackage {
	return spdxPackage{
		ID: id, Name: m.Path, Version: m.Version, Location: "NOASSERTION",
		Refs: []spdxRef{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + m.Path + "@" + m.Version}},
	}
}
