//! `INFO`: what the account uses and may use.

use super::Call;
use myelin_jsapi::ApiError;
use myelin_jsapi::api::response::AccountInfo;

impl Call {
    pub(super) fn account_info(&mut self) -> Result<AccountInfo, ApiError> {
        Ok(AccountInfo { info: Some(self.account.info(&self.jetstream.settings.domain)) })
    }
}
