//! The types of responses, for clients of the API such as the command line. Each type is defined near its handler.
//!
//! A response may have fields that a client does not know, because the server may be newer. So these types accept
//! unknown fields. Definitions are not here, because they reject unknown fields.

pub use crate::approval_views::{
    ApprovalDecisionView, ApprovedCallView, ChildRunView, DecisionResultView, DecisionResultsView,
};
pub use crate::collection::DeletionView;
pub use crate::conversation_views::{ConversationView, TurnView};
pub use crate::inspection_views::{
    AmountView, BudgetView, JournalEntryView, MessageView, OfferedToolView, OpenCallView, RequestedCallView,
    RunNodeView, RunStateView, RunTreeView,
};
pub use crate::problem::{FieldError, Problem};
pub use crate::revisions::{ChangeView, RevisionDiffView, RevisionView};
pub use crate::routes::agentic_tools::{
    ActionCallCost, AgenticToolView, CostBreakdown, ExecutionStatus, ExecutionSummaryView, ExecutionView,
    InvocationMeta, InvocationView, LlmCallCost, LlmCallView, PromptReplyView, PromptTestView, PromptVersionView,
    RegeneratedPromptView, RequestedToolView, ToolCallView, TraceStep, TraceView, merge_calls,
};
pub use crate::routes::agents::AgentToolView;
pub use crate::routes::arazzo::WorkflowImportView;
pub use crate::routes::composite_tools::{
    CompositeCallMeta, CompositeInvocationView, CompositeRouteView, CompositeToolView,
};
pub use crate::routes::costs::{CostBoundView, CostEstimateView, CostModelView, DelegateCostView};
pub use crate::routes::drift::DriftView;
pub use crate::routes::effects::{EffectResolutionView, EffectUndoneView, EffectView};
pub use crate::routes::events::EventView;
pub use crate::routes::gram::{AppliedView, GramApplyView, MatchesView};
pub use crate::routes::imports::{ImportView, ImportedView, SkippedOperationView};
pub use crate::routes::journals::{
    AlignedEntryView, DivergenceView, RunDiffView, TrialCallView, TrialReplayView, TrialRepliesView, VerificationView,
};
pub use crate::routes::keys::{IssuedKeyView, KeyView};
pub use crate::routes::materialize::{
    AgentStepView, CallStepView, LeftOutCallView, LiftedInputView, MaterializeReportView, MaterializeVerificationView,
    MaterializedView, NotReproducedView, ValueLinkView,
};
pub use crate::routes::mcp_imports::{McpImportView, McpSkippedView, McpToolView};
pub use crate::routes::models::{ModelPriceView, ModelView};
pub use crate::routes::principals::PrincipalView;
pub use crate::routes::providers::ProviderTestView;
pub use crate::routes::query::{DeletedManyView, DeletedView, RecordCount, RecordPageView, SavedView};
pub use crate::routes::reach::{ReachEdgeView, ReachNodeView, ReachView};
pub use crate::routes::readiness::{CheckView, ProviderUsesView, ReadinessView, ToolUsesView, UseView};
pub use crate::routes::realms::{RealmView, WhoView};
pub use crate::routes::secrets::SecretView;
pub use crate::routes::server::{
    AdministrationView, LanguageView, PartView, RunLimitsView, ServerLimitsView, ServerView,
};
pub use crate::routes::tables::{FailedLine, ImportLine};
pub use crate::routes::tools::{AwaitingClientView, ValidationView};
pub use crate::routes::trials::{LiveReportView, TrialItemView, TrialStartedView, TrialView};
pub use crate::routes::type_imports::{ImportedTypeView, SkippedTypeView, TypeImportView};
pub use crate::routes::undo::{KeptCallView, UndoView, UndoneCallView};
pub use crate::routes::workflow_graph::{EdgeChangeView, FieldChangeView, StepChangeView, WorkflowDiffView};
pub use crate::routes::workflows::{WorkflowCheckView, WorkflowIssueView};
pub use crate::run_views::{
    AcceptedView, AgentResponseView, ApprovalView, ClientActionView, DecisionView, ForkView, RunOriginView,
    RunSummaryView, RunTrialView, RunView,
};
pub use crate::stream_views::{StreamEventKind, StreamEventView};
pub use crate::tool_views::ToolViewStatus;
pub use crate::views::PageView;
pub use crate::workflow_views::{StepItemView, StepView, WorkflowInstanceView, WorkflowRunView};

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn unknown_fields_and_event_kinds_of_a_newer_server_are_accepted() {
        let read = |event: Value| serde_json::from_value::<StreamEventView>(event).unwrap();
        let text = read(json!({ "type": "TEXT_DELTA", "content": "hi", "iteration": 1, "runId": "r", "mood": "calm" }));
        assert_eq!((text.kind, text.content.as_deref()), (StreamEventKind::TextDelta, Some("hi")));
        let dream = read(json!({ "type": "DREAM", "iteration": 1, "runId": "r", "dream": {} }));
        assert_eq!(dream.kind, StreamEventKind::Unknown);
        let problem = json!({ "type": "/errors/x", "title": "t", "status": 418, "code": "x", "detail": "d", "new": 1 });
        assert_eq!(serde_json::from_value::<Problem>(problem).unwrap().code, "x");
    }

    #[test]
    fn event_kind_has_the_same_name_in_json_and_in_the_sse_event_field() {
        for name in ["THINKING", "TEXT_DELTA", "TEXT_RESET", "TOOL_CALL_START", "TOOL_CALL_END", "APPROVAL_REQUIRED"]
            .into_iter()
            .chain(["CLIENT_ACTION", "CHILD_WAITING", "USAGE", "DONE", "ERROR"])
        {
            let kind: StreamEventKind = serde_json::from_value(json!(name)).unwrap();
            assert_eq!((kind.as_str(), json!(kind)), (name, json!(name)));
        }
    }
}
