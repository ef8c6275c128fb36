package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/cli/manifest"
)

// wrapFlags are those of wrap.
type wrapFlags struct {
	files   []string
	podSets []string
	output  string
	wrapper manifest.Wrapper
}

// newWrapCommand puts manifests into an AppWrapper.
func newWrapCommand() *cobra.Command {
	var w wrapFlags
	cmd := &cobra.Command{
		Use:   "wrap -f FILE",
		Short: "Put manifests into one AppWrapper, which is queued, retried and deleted as a whole",
		Long: `Put objects of any kinds into one AppWrapper and print it. Files may be YAML with several
documents, JSON, Lists, folders of such files, or - for standard input. The objects stay as
they are, comments included.

Pods are counted as the kinds say. Of a kind that is not known here, its templates are
found, with the number of pods that is said beside them; where none is, say it with
--pod-set. What may not be wrapped is refused with file, line and cure. No cluster is asked.`,
		Example: `  # a Job and the ConfigMap that it needs, as one
  mlbatch wrap -f job.yaml -f config.yaml --name bundle | kubectl create -n blue -f -

  # an object of another operator, with 4 pods of spec.template
  mlbatch wrap -f sampler.yaml --pod-set Sampler/mine:spec.template=4`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return w.run(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	filesFlag(cmd, &w.files)
	f.StringVar(&w.wrapper.Name, "name", "",
		"name of the AppWrapper (default that of the first object with pods)")
	f.StringVarP(&w.wrapper.Namespace, "namespace", "n", "",
		"`namespace` to write into the AppWrapper (default that of the objects)")
	f.StringVarP(&w.wrapper.Queue, "queue", "q", "",
		"LocalQueue (default that of the objects; if they name none, the namespace's default)")
	f.StringArrayVar(
		&w.podSets,
		"pod-set",
		nil,
		"`KIND/NAME:PATH=REPLICAS`: how many pods an object of a kind that is not known makes of a template; may be given several times",
	)
	f.StringVarP(&w.output, "output", "o", "yaml", "yaml or json")
	return cmd
}

// filesFlag adds -f.
func filesFlag(cmd *cobra.Command, files *[]string) {
	cmd.Flags().StringArrayVarP(files, "filename", "f", nil,
		"`file` or folder; - is standard input; may be given several times")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json") // the flag is there
}

func (w *wrapFlags) run(in io.Reader, out, errs io.Writer) error {
	if w.output != "yaml" && w.output != "json" {
		return usagef("-o %s is not known: use yaml or json", w.output)
	}
	for _, text := range w.podSets {
		d, err := manifest.ParseDeclared(text)
		if err != nil {
			return usagef("--pod-set %w", err)
		}
		w.wrapper.Declared = append(w.wrapper.Declared, d)
	}
	docs, err := readDocuments(in, w.files)
	if err != nil {
		return err
	}
	wrapped, err := w.wrapper.Wrap(docs)
	if err != nil {
		return fmt.Errorf("%w", err)
	}
	for _, note := range wrapped.Notes {
		fmt.Fprintln(errs, "note: "+note)
	}
	if w.output == "json" {
		return printObject(out, "json", wrapped.Object)
	}
	_, err = out.Write(wrapped.Text)
	return err
}

// readDocuments reads the objects of files and folders, in the order in which they are named.
func readDocuments(in io.Reader, files []string) ([]manifest.Document, error) {
	return readDocumentsBut(in, files, nil)
}

// errNoManifests is a command line that names none.
var errNoManifests = usageError{errors.New("say which manifests: -f FILE, or -f - for standard input")}

// readDocumentsBut is readDocuments that goes on after files of a folder that cannot be read: pass is
// told of them. nil stops at the first.
func readDocumentsBut(in io.Reader, files []string, pass func(error)) ([]manifest.Document, error) {
	if len(files) == 0 {
		return nil, errNoManifests
	}
	var out []manifest.Document
	for _, name := range files {
		all, folder := []string{name}, false
		if stat, err := os.Stat(name); err == nil && stat.IsDir() {
			if all, err = manifestsIn(name); err != nil {
				return nil, err
			}
			folder = true
		}
		for _, file := range all {
			data, err := readFile(in, file)
			if err != nil {
				return nil, err
			}
			docs, err := manifest.Read(fileName(file), data)
			if err != nil && folder && pass != nil {
				pass(err)
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("%w", err)
			}
			out = append(out, docs...)
		}
	}
	return out, nil
}

// manifestsIn are the files of a folder that may be manifests, by name.
func manifestsIn(folder string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() &&
			slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path))) {
			out = append(out, path)
		}
		return err
	})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%s has no files that end with .yaml, .yml or .json", folder)
	}
	if err != nil {
		return nil, fmt.Errorf("read a folder: %w", err)
	}
	return out, nil
}
