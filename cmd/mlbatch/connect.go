package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/local"
	"github.com/mlbatch/mlbatch/internal/view"
)

// connect finds the cluster that is asked, and a client for it.
func connect(conn *cli.Connection) (*rest.Config, client.WithWatch, error) {
	locate(conn)
	cfg, err := conn.Config()
	if err != nil {
		return nil, nil, err
	}
	printWarnings(cfg, os.Stderr)
	c, err := newClient(cfg)
	return cfg, c, err
}

// printWarnings has clients print what the API server warns of, each once.
func printWarnings(cfg *rest.Config, to io.Writer) {
	cfg.WarningHandler = rest.NewWarningWriter(to, rest.WarningWriterOptions{Deduplicate: true})
}

// newClient is a client of a cluster that reads long lists in pages.
func newClient(cfg *rest.Config) (client.WithWatch, error) {
	known := scheme.New()
	if err := view.AddToScheme(known); err != nil {
		return nil, fmt.Errorf("learn of views: %w", err)
	}
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: known})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	return cli.Paged(c), nil
}

// locate fills in the usual place of the cluster on this machine.
func locate(conn *cli.Connection) {
	if conn.DataDir == "" {
		// Without a home directory there is none of ours to look into.
		conn.DataDir, _ = local.DefaultDataDir()
	}
}

// printObject prints a value as JSON, or else as YAML.
func printObject(out io.Writer, format string, value any) error {
	if format == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(value)
	}
	data, err := yaml.Marshal(value)
	if err != nil {
		return fmt.Errorf("print as YAML: %w", err)
	}
	_, err = out.Write(data)
	return err
}

// knownFormat refuses an output format that is none of these.
func knownFormat(output string, formats ...string) error {
	if output != "" && !slices.Contains(formats, output) {
		return fmt.Errorf("-o %s is not known: use %s", output, cli.Either(formats))
	}
	return nil
}

// knownFormatOrColumns refuses an output format that is none of these, and columns that are none.
func knownFormatOrColumns(output string, formats ...string) error {
	if spec, custom := strings.CutPrefix(output, cli.CustomColumnsFormat); custom {
		_, err := cli.CustomColumns[any](spec)
		return err
	}
	if output != "" && !slices.Contains(formats, output) {
		return fmt.Errorf(
			"-o %s is not known: use %s or %sTITLE:.field with more after commas",
			output,
			strings.Join(formats, ", "),
			cli.CustomColumnsFormat,
		)
	}
	return nil
}

// tabular reports whether people read what is printed in a format.
func tabular(output string) bool {
	return output == "" || output == "wide" || strings.HasPrefix(output, cli.CustomColumnsFormat)
}

// printRows prints lines as a table, or as objects.
func printRows[T any](out io.Writer, format string, columns []cli.Column[T], rows []T, bare bool) error {
	if format == "json" || format == "yaml" {
		return printObject(out, format, struct {
			Items []T `json:"items"`
		}{rows})
	}
	return printTable(out, format, columns, rows, cli.Layout{Bare: bare})
}

// printTable prints lines below titles: as wide as the terminal is, or with columns of people's own.
func printTable[T any](out io.Writer, format string, columns []cli.Column[T], rows []T, l cli.Layout) error {
	if spec, custom := strings.CutPrefix(format, cli.CustomColumnsFormat); custom {
		own, err := cli.CustomColumns[T](spec)
		if err != nil {
			return usageError{err}
		}
		return cli.PrintTable(out, own, rows, l)
	}
	l.Width, l.Wide, l.Colours = tableWidth(out), format == "wide", hasColours(out)
	return cli.PrintTable(out, columns, rows, l)
}

// printNames prints a name for each row, for scripts.
func printNames[T any](out io.Writer, rows []T, name func(T) string) error {
	for _, r := range rows {
		if _, err := fmt.Fprintln(out, name(r)); err != nil {
			return err
		}
	}
	return nil
}

// reachable takes something of a namespace, of all if it is "", and returns of which it did. Who
// may not read all namespaces gets the one of their kubeconfig's context, if it names one.
func reachable[T any](
	conn *cli.Connection,
	namespace string,
	take func(namespace string) (T, error),
) (T, string, error) {
	taken, err := take(namespace)
	if mine := conn.Namespace(); namespace == "" && mine != "" && apierrors.IsForbidden(err) {
		namespace = mine
		taken, err = take(namespace)
	}
	return taken, namespace, err
}
