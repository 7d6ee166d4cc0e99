//! A browser with several pages: marks that end with their page, and a channel that may be silent.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use runcontext::{
    runtime::{Signal, Tabs},
    storage::LocalFuture,
};

/// What hears.
type Ear = Rc<dyn Fn(&str)>;

/// What the pages of one browser share.
#[derive(Default)]
pub struct Browser {
    marks: RefCell<Vec<(u32, String)>>,
    ears: RefCell<Vec<(u32, Ear)>>,
    said: RefCell<Vec<String>>,
    pages: Cell<u32>,
    silent: Cell<bool>,
}

impl Browser {
    /// A new page's view of the others.
    pub fn page(self: &Rc<Self>) -> Rc<Page> {
        self.pages.set(self.pages.get() + 1);
        Rc::new(Page {
            browser: self.clone(),
            number: self.pages.get(),
        })
    }

    /// Nobody hears anything any more.
    pub fn silence(&self) {
        self.silent.set(true);
    }

    /// Which sessions are marked, once for each who marked them.
    pub fn marks(&self) -> Vec<String> {
        self.marks
            .borrow()
            .iter()
            .map(|(_, session)| session.clone())
            .collect()
    }

    /// What was said since the last look.
    pub fn said(&self) -> Vec<String> {
        std::mem::take(&mut *self.said.borrow_mut())
    }

    /// Says something, as a page of another make.
    pub fn says(&self, text: &str) {
        self.spread(0, text);
    }

    /// The page is gone, and what it held.
    pub fn dies(&self, page: &Page) {
        self.marks
            .borrow_mut()
            .retain(|(number, _)| *number != page.number);
        self.ears
            .borrow_mut()
            .retain(|(number, _)| *number != page.number);
    }

    fn spread(&self, from: u32, text: &str) {
        self.said.borrow_mut().push(text.to_owned());
        let ears = self.ears.borrow().clone();
        for (number, heard) in ears {
            if number != from && !self.silent.get() {
                heard(text);
            }
        }
    }
}

/// One page.
pub struct Page {
    browser: Rc<Browser>,
    number: u32,
}

impl Tabs for Page {
    fn mark(&self, session: &str, until: Signal) -> LocalFuture<'static, ()> {
        let mark = (self.number, session.to_owned());
        self.browser.marks.borrow_mut().push(mark.clone());
        let browser = self.browser.clone();
        until.on_fire(move || {
            let mut marks = browser.marks.borrow_mut();
            let at = marks.iter().position(|other| *other == mark);
            at.map(|at| marks.remove(at));
        });
        Box::pin(async {})
    }

    fn is_marked(&self, session: &str) -> LocalFuture<'static, bool> {
        let marked = self.browser.marks().iter().any(|other| other == session);
        Box::pin(async move { marked })
    }

    fn claim(&self, session: &str, until: Signal) -> LocalFuture<'static, Option<bool>> {
        let name = format!("import of {session}");
        let is_free = !self.browser.marks().contains(&name);
        if is_free {
            drop(self.mark(&name, until));
        }
        Box::pin(async move { Some(is_free) })
    }

    fn say(&self, hint: &str) {
        self.browser.spread(self.number, hint);
    }

    fn hear(&self, heard: Rc<dyn Fn(&str)>) {
        self.browser.ears.borrow_mut().push((self.number, heard));
    }

    fn close(&self) {
        self.browser
            .ears
            .borrow_mut()
            .retain(|(number, _)| *number != self.number);
    }
}
