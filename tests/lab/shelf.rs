//! A host's place of skills that is made of a table, does as it is told, and counts.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use runcontext::{
    runtime::{ListedFile, Signal, SkillFile, SkillSource},
    storage::LocalFuture,
};

/// What a file brings when it is read.
#[derive(Clone, Debug)]
pub enum Book {
    /// Its bytes.
    Bytes(Vec<u8>),
    /// A failure.
    Failure(&'static str),
    /// Its bytes, once the signal fires.
    Later(Signal, Vec<u8>),
}

impl Book {
    /// Text.
    pub fn text(text: &str) -> Self {
        Book::Bytes(text.as_bytes().to_vec())
    }
}

/// The files, shared with those that were listed.
type Books = Rc<RefCell<Vec<(String, Book)>>>;

/// The source.
#[derive(Clone, Default)]
pub struct Shelf {
    books: Books,
    failure: Rc<RefCell<Option<&'static str>>>,
    waits: Rc<RefCell<Option<Signal>>>,
    reads: Rc<Cell<usize>>,
    /// So many are being read now, and were at most.
    busy: Rc<Cell<(usize, usize)>>,
}

impl Shelf {
    /// With these files.
    pub fn of(books: &[(&str, &str)]) -> Rc<Self> {
        let shelf = Self::default();
        for (location, text) in books {
            shelf.put(location, Book::text(text));
        }
        Rc::new(shelf)
    }

    /// Puts a file in, in place of what was there.
    pub fn put(&self, location: &str, book: Book) {
        self.take(location);
        self.lists_again(location, book);
    }

    /// Puts a file in, whether or not its location is taken.
    pub fn lists_again(&self, location: &str, book: Book) {
        self.books.borrow_mut().push((location.to_owned(), book));
    }

    /// Takes a file out.
    pub fn take(&self, location: &str) {
        self.books.borrow_mut().retain(|(other, _)| other != location);
    }

    /// It cannot be listed, or can again.
    pub fn fails(&self, why: Option<&'static str>) {
        *self.failure.borrow_mut() = why;
    }

    /// It is listed only once the signal fires.
    pub fn waits(&self, signal: Option<Signal>) {
        *self.waits.borrow_mut() = signal;
    }

    /// How many files were read since the last look.
    pub fn reads(&self) -> usize {
        self.reads.take()
    }

    /// How many were read at the same time, at most.
    pub fn most_at_once(&self) -> usize {
        self.busy.get().1
    }
}

impl SkillSource for Shelf {
    fn list(&self) -> LocalFuture<'_, Result<Vec<ListedFile>, String>> {
        let waits = self.waits.borrow().clone();
        let books = self.books.borrow().clone();
        Box::pin(async move {
            if let Some(signal) = waits {
                signal.fired().await;
            }
            if let Some(why) = *self.failure.borrow() {
                return Err(why.to_owned());
            }
            let file = |(at, (location, _)): (usize, (String, Book))| -> ListedFile {
                let shelf = self.clone();
                (location.clone(), Rc::new(OnShelf { shelf, location, at }))
            };
            Ok(books.into_iter().enumerate().map(file).collect())
        })
    }
}

struct OnShelf {
    shelf: Shelf,
    location: String,
    /// Where it stood; one that moved is found by its location.
    at: usize,
}

impl SkillFile for OnShelf {
    fn read(&self) -> LocalFuture<'_, Result<Vec<u8>, String>> {
        let shelf = self.shelf.clone();
        Box::pin(async move {
            shelf.reads.set(shelf.reads.get() + 1);
            let (busy, most) = shelf.busy.get();
            shelf.busy.set((busy + 1, most.max(busy + 1)));
            let book = {
                let books = shelf.books.borrow();
                let here = books
                    .get(self.at)
                    .filter(|(location, _)| *location == self.location);
                let found = here.or_else(|| books.iter().find(|(location, _)| *location == self.location));
                found.map(|(_, book)| book.clone())
            };
            let read = match book {
                None => Err("no such file".to_owned()),
                Some(Book::Bytes(bytes)) => Ok(bytes),
                Some(Book::Failure(why)) => Err(why.to_owned()),
                Some(Book::Later(signal, bytes)) => {
                    signal.fired().await;
                    Ok(bytes)
                }
            };
            let (busy, most) = shelf.busy.get();
            shelf.busy.set((busy - 1, most));
            read
        })
    }
}
