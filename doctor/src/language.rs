//! The two languages of the reports. A sentence that is made anywhere is made in both, side by side, so that neither can be
//! forgotten; JSON keys, ids and what is quoted from evidence are the same in both.

use std::fmt;

/// A language of the reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Language {
    /// `en`
    #[default]
    English,
    /// `zh`
    Chinese,
}

impl Language {
    /// `en` or `zh`.
    pub fn code(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh",
        }
    }

    /// The language of a code.
    pub fn of_code(code: &str) -> Option<Self> {
        [Self::English, Self::Chinese].into_iter().find(|language| language.code() == code)
    }
}

/// A text in both languages of the reports.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text {
    /// English.
    pub en: String,
    /// Chinese.
    pub zh: String,
}

impl Text {
    /// What is the same in every language: a name, a number, a quotation.
    pub fn verbatim(text: impl Into<String>) -> Self {
        let en = text.into();
        Self { zh: en.clone(), en }
    }

    /// The text in a language.
    pub fn get(&self, language: Language) -> &str {
        match language {
            Language::English => &self.en,
            Language::Chinese => &self.zh,
        }
    }

    /// Several texts as one, with what stands between them in either language.
    pub(crate) fn join<'a>(
        texts: impl IntoIterator<Item = &'a Self>,
        en_between: &str,
        zh_between: &str,
    ) -> Self {
        let (en, zh): (Vec<_>, Vec<_>) =
            texts.into_iter().map(|text| (text.en.as_str(), text.zh.as_str())).unzip();
        Self { en: en.join(en_between), zh: zh.join(zh_between) }
    }
}

/// A quotation.
impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::verbatim(text)
    }
}

/// A quotation.
impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::verbatim(text)
    }
}

/// English, for logs and errors.
impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.en)
    }
}

/// Makes a [`Text`] of two format strings over the same variables. Names may be given to values behind them, and to other
/// texts behind a semicolon: each of these stands in either language for itself.
macro_rules! text {
    ($en:literal, $zh:literal $(, $name:ident = $value:expr)* $(,)?) => {
        $crate::language::Text { en: format!($en $(, $name = $value)*), zh: format!($zh $(, $name = $value)*) }
    };
    ($en:literal, $zh:literal $(, $name:ident = $value:expr)*; $($text:ident),+ $(,)?) => {
        $crate::language::Text {
            en: { $(let $text = &$text.en;)+ format!($en $(, $name = $value)*) },
            zh: { $(let $text = &$text.zh;)+ format!($zh $(, $name = $value)*) },
        }
    };
}
pub(crate) use text;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_languages_are_made_of_the_same_values() {
        let count = 3;
        let of = text!("{count} threads", "{count} 个线程");
        assert_eq!(of.get(Language::Chinese), "3 个线程");
        let whole = text!("{of} in {place}", "{place} 中的 {of}", place = "heap"; of);
        assert_eq!((whole.en.as_str(), whole.zh.as_str()), ("3 threads in heap", "heap 中的 3 个线程"));
        assert_eq!(Text::join([&of, &Text::verbatim("x")], ", ", "、").zh, "3 个线程、x");
        assert_eq!(Language::of_code("zh"), Some(Language::Chinese));
        assert_eq!(Language::of_code("de"), None);
    }
}
