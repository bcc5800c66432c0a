//! Templates in the subjects of a scope: `{{name()}}`, `{{subject()}}`, `{{account-name()}}`,
//! `{{account-subject()}}`, `{{tag(x)}}` and `{{account-tag(x)}}`.
//!
//! A tag may have several values, and then a subject becomes several: never more than [`MOST`].

use super::account::TrustedAccount;
use crate::jwt::{UserClaims, UserPermissions};
use myelin_subject::is_valid_pattern;

/// Subjects that one list may become.
const MOST: usize = 4096;
/// Value of a tag that is not there, where that is no mistake: no subject can have it.
const NOTHING: &str = " ";

/// A list of subjects makes no permissions. Which text it was is the operator's business and in no
/// log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InvalidTemplate;

/// Applies the `template` of a scope to this user of this account.
pub(super) fn applied(
    template: &UserPermissions,
    claims: &UserClaims,
    account: &TrustedAccount,
) -> Result<UserPermissions, InvalidTemplate> {
    let words = Words { claims, account };
    let mut given = template.clone();
    for permission in [&mut given.subscribe, &mut given.publish] {
        let had_allowed = !permission.allow.is_empty();
        permission.allow = expand(&permission.allow, &words, false)?;
        permission.deny = expand(&permission.deny, &words, true)?;
        // What was to be little must not become everything.
        if had_allowed && permission.allow.is_empty() && !permission.deny.iter().any(|deny| deny == ">") {
            permission.deny.push(">".to_owned());
        }
    }
    Ok(given)
}

struct Words<'a> {
    claims: &'a UserClaims,
    account: &'a TrustedAccount,
}

/// Value of a template.
enum TemplateValue {
    One(String),
    /// The values of a tag.
    Tags(Vec<String>),
}

impl Words<'_> {
    fn value(&self, operation: &str) -> Option<TemplateValue> {
        let one = |text: &str| Some(TemplateValue::One(text.to_owned()));
        match operation.to_ascii_lowercase().as_str() {
            "name()" => one(&self.claims.name),
            "subject()" => one(&self.claims.subject),
            "account-name()" => one(&self.account.claims().name),
            "account-subject()" => one(&self.claims.nats.issuer_account),
            _ => {
                let (word, name) = operation.strip_suffix(')')?.split_once('(')?;
                let tags = match word.to_ascii_lowercase().as_str() {
                    "tag" => self.claims.user_tags(),
                    "account-tag" => self.account.claims().account_tags(),
                    _ => return None,
                };
                let prefix = format!("{}:", name.to_lowercase());
                let values = tags.iter().filter_map(|tag| tag.strip_prefix(&prefix));
                Some(TemplateValue::Tags(values.map(str::to_owned).collect()))
            }
        }
    }
}

/// The subjects that a list stands for. Where a template stands in it, what is no subject is left
/// out, or a mistake.
fn expand(list: &[String], words: &Words<'_>, is_strict: bool) -> Result<Vec<String>, InvalidTemplate> {
    if list.iter().all(|text| templates(text).is_empty()) {
        return Ok(list.to_vec());
    }
    let mut subjects = Vec::new();
    for text in list {
        for subject in expand_one(text, words, is_strict, MOST.saturating_sub(subjects.len()))? {
            if is_valid_pattern(subject.as_bytes()) && !subject.contains([' ', '\t', '\r', '\n', '\x0c']) {
                subjects.push(subject);
            } else if is_strict {
                return Err(InvalidTemplate);
            }
        }
    }
    Ok(subjects)
}

fn expand_one(
    text: &str,
    words: &Words<'_>,
    is_strict: bool,
    most: usize,
) -> Result<Vec<String>, InvalidTemplate> {
    let mut subjects = vec![text.to_owned()];
    for template in templates(text) {
        let operation = template[2..template.len() - 2].trim();
        let values = match words.value(operation).ok_or(InvalidTemplate)? {
            TemplateValue::One(value) => vec![value],
            TemplateValue::Tags(values) if !values.is_empty() => values,
            TemplateValue::Tags(_) if is_strict => return Err(InvalidTemplate),
            TemplateValue::Tags(_) => vec![NOTHING.to_owned()],
        };
        if values.len() * subjects.len() > most {
            return Err(InvalidTemplate);
        }
        let replaced = |subject: &String| -> Vec<String> {
            values.iter().map(|value| subject.replace(template, value)).collect()
        };
        subjects = subjects.iter().flat_map(replaced).collect();
    }
    Ok(subjects)
}

/// The templates in a text, braces included, each once.
fn templates(text: &str) -> Vec<&str> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(start) = text[at..].find("{{").map(|offset| at + offset) {
        let inner = &text[start + 2..];
        match inner.find('}') {
            Some(len) if len > 0 && inner[len..].starts_with("}}") => {
                at = start + 2 + len + 2;
                if !found.contains(&&text[start..at]) {
                    found.push(&text[start..at]);
                }
            }
            _ => at = start + 1,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jwt::AccountClaims;

    fn claims(tags: &str) -> UserClaims {
        let json =
            format!(r#"{{"name":"Bob","sub":"UBOB","nats":{{"issuer_account":"AACC","tags":[{tags}]}}}}"#);
        serde_json::from_str(&json).unwrap()
    }

    fn account() -> TrustedAccount {
        let claims: AccountClaims =
            serde_json::from_str(r#"{"sub":"AACC","name":"Acme","nats":{"tags":["zone:a","zone:b"]}}"#)
                .unwrap();
        TrustedAccount::of("", claims, &crate::operator::Trust::default())
    }

    fn expanded(list: &[&str], tags: &str, is_strict: bool) -> Result<Vec<String>, InvalidTemplate> {
        let list: Vec<String> = list.iter().map(|&text| text.to_owned()).collect();
        expand(&list, &Words { claims: &claims(tags), account: &account() }, is_strict)
    }

    const TAGS: &str = r#""dept:sales","dept:ops","Dept:no""#;

    #[test]
    fn each_template_has_its_value() {
        for (text, subjects) in [
            ("a.{{name()}}", &["a.Bob"][..]),
            ("a.{{ NAME() }}.{{subject()}}", &["a.Bob.UBOB"]),
            ("{{account-name()}}.{{account-subject()}}", &["Acme.AACC"]),
            ("a.{{tag(Dept)}}", &["a.sales", "a.ops"]),
            ("{{account-tag(zone)}}.{{tag(dept)}}", &["a.sales", "a.ops", "b.sales", "b.ops"]),
            ("a.{{tag(none)}}", &[]),
            ("a.b", &["a.b"]),
            ("a b", &["a b"]),
        ] {
            assert_eq!(
                expanded(&[text], TAGS, false).as_deref(),
                Ok(subjects).map(|s| s.iter().map(|&s| s.to_owned()).collect::<Vec<_>>()).as_deref(),
                "{text}"
            );
        }
    }

    #[test]
    fn what_cannot_be_is_a_mistake() {
        for text in ["{{other()}}", "{{name}}", "{{{name()}}", "{{tag(dept}}"] {
            assert_eq!(expanded(&[text], TAGS, false), Err(InvalidTemplate), "{text}");
        }
        assert_eq!(expanded(&["a.{{tag(none)}}"], TAGS, true), Err(InvalidTemplate));
        // Compat: beside a template, a rule for queues is no subject.
        assert_eq!(expanded(&["a.{{name()}}", "b q"], TAGS, false).unwrap(), ["a.Bob"]);
        assert_eq!(expanded(&["a.{{name()}}", "b q"], TAGS, true), Err(InvalidTemplate));
    }

    /// A class of attacks: tags multiply, and so must be counted before they are written out.
    #[test]
    fn many_tags_do_not_fill_memory() {
        let tags: Vec<_> = (0..64).map(|n| format!("\"t:{n}\"")).collect();
        let tags = tags.join(",");
        assert_eq!(expanded(&["{{tag(t)}}.x.{{tag(t)}}"], &tags, false).map(|list| list.len()), Ok(64));
        let twice = ["{{tag(t)}}.{{ tag(t) }}"];
        assert_eq!(expanded(&twice, &tags, false).map(|list| list.len()), Ok(4096));
        assert_eq!(expanded(&["{{tag(t)}}.{{ tag(t) }}.{{tag(t) }}"], &tags, false), Err(InvalidTemplate));
        assert_eq!(
            expanded(&["{{tag(t)}}.{{ tag(t) }}", "a.{{tag(t)}}"], &tags, false),
            Err(InvalidTemplate)
        );
    }

    #[test]
    fn an_allow_list_that_vanishes_denies_all() {
        let template: UserPermissions =
            serde_json::from_str(r#"{"pub":{"allow":["a.{{tag(none)}}"]},"sub":{"allow":["b"]}}"#).unwrap();
        let given = applied(&template, &claims(""), &account()).unwrap();
        assert_eq!((given.publish.allow.len(), given.publish.deny.as_slice()), (0, &[">".to_owned()][..]));
        assert_eq!(
            (given.subscribe.allow.as_slice(), given.subscribe.deny.len()),
            (&["b".to_owned()][..], 0)
        );
    }
}
