// Package page serves the page: files that are built from web/, and to whoever has a session what the API of views
// tells that person.
//
// The page derives nothing and the server knows no view: what may be asked is a list of paths ([asked]), and
// an [http.Handler] that is given answers them with the rights of whoever asks. One stream for each open page
// carries the changes of all lists that it shows ([stream]).
package page
