package jobs

import kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"

// Of makes a function of objects of one type one of objects. What is of another type
// gives the zero value: it has come to the wrong kind.
func Of[T Object, R any](f func(T) R) func(Object) R {
	return func(o Object) (out R) {
		if typed, is := o.(T); is {
			return f(typed)
		}
		return out
	}
}

// OfBoth is Of for two states of an object.
func OfBoth[T Object, R any](f func(was, is T) R) func(was, is Object) R {
	return func(was, is Object) (out R) {
		before, ok := was.(T)
		after, also := is.(T)
		if ok && also {
			return f(before, after)
		}
		return out
	}
}

// Keeping is Of for Kind.Keep.
func Keeping[T Object](
	keep func(was, is T, original []kueue.PodSet) T,
) func(was, is Object, original []kueue.PodSet) Object {
	return func(was, is Object, original []kueue.PodSet) Object {
		before, ok := was.(T)
		after, also := is.(T)
		if ok && also {
			return keep(before, after, original)
		}
		return is
	}
}

// Changing makes a function of objects from one that changes a copy of those of one type.
func Changing[T Object](change func(T)) func(Object) Object {
	return func(o Object) Object {
		out, typed := o.DeepCopyObject().(T)
		if !typed {
			return o
		}
		change(out)
		return out
	}
}
