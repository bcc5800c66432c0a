//! Credentials on their way to an identity, away from the shard, and questions to a callout service
//! about them.

use crate::supervise::{self, SupervisedPart};
use myelin_auth::{Identity, Reject};
use myelin_broker::{Account, Checked, Conn, PendingCallout};
use myelin_wire::message_buf::MessageBuf;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Checks credentials once there is a place for that; `publish` is for the question to a callout
/// service, if one has to decide. `None`: the client has left meanwhile, or the
/// check has panicked.
pub(super) async fn check(
    run: impl FnOnce() -> Checked + Send + 'static,
    publish: impl FnOnce(Arc<Account>, MessageBuf),
    conn: Arc<Conn>,
    permits: Arc<Semaphore>,
) -> Option<Result<Identity, Reject>> {
    let place = Arc::clone(&permits).acquire_owned().await.ok()?;
    if conn.close_requested().is_some() {
        return None;
    }
    match supervise::blocking(SupervisedPart::Login, run).await? {
        Checked::Final(outcome) => Some(outcome),
        Checked::AskCallout(asking) => ask(asking, publish, place, permits).await,
    }
}

/// Has a callout service decide. The question is signed and sealed in the `place` of the login;
/// while the service thinks nothing is held but the question, and a place is taken again for the
/// answer.
async fn ask(
    mut asking: Box<PendingCallout>,
    publish: impl FnOnce(Arc<Account>, MessageBuf),
    place: OwnedSemaphorePermit,
    permits: Arc<Semaphore>,
) -> Option<Result<Identity, Reject>> {
    let (sender, answer) = oneshot::channel();
    let heard = move |bytes| {
        // Who asked may have lost patience.
        let _ = sender.send(bytes);
    };
    let signing = move || (asking.publish(Instant::now(), heard), asking);
    let (published, mut asking) = supervise::blocking(SupervisedPart::Login, signing).await?;
    drop(place);
    match published {
        Ok((account, msgs)) => publish(account, msgs),
        Err(reject) => return Some(Err(reject)),
    }
    let answer = tokio::time::timeout(asking.timeout(), answer).await.ok().and_then(Result::ok);
    asking.forget();
    let _place = permits.acquire_owned().await.ok()?;
    let verify = move || asking.verify(answer, Instant::now());
    supervise::blocking(SupervisedPart::Login, verify).await
}
