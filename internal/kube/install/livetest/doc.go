// Package livetest tries what is installed, webhooks included, on a real API
// server: that it takes the definitions, calls the webhooks when it should, and
// shows users what they are told.
package livetest
