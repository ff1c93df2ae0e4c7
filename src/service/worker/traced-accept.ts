/**
 * Accepts within a span of OpenTelemetry (lib/tracing/spans.ts), which continues the trace of the request. The email
 * then keeps this span: attempts and webhooks link to it. Without an SDK it only accepts.
 */
import { isRefusal } from '../../core/refusals.ts';
import type { Caller } from '../../core/scope.ts';
import { inSpan, isTracing, type OpenSpan, type SpanOptions } from '../../lib/tracing/spans.ts';
import type { AcceptEmail } from '../../accept/accept.ts';
import type { AcceptResult } from '../../accept/accept-results.ts';
import type { EmailDraft } from '../../accept/draft.ts';
import type { AcceptBatch } from '../../accept/email-batch.ts';

export function tracedAccept(accept: AcceptEmail): AcceptEmail {
  return (caller, draft, idempotency) => {
    if (!isTracing()) return accept(caller, draft, idempotency);
    return inSpan('accept email', optionsOf(caller, [draft]), async (span) =>
      ended(span, await accept(caller, withSpan(draft, span), idempotency)),
    );
  };
}

export function tracedAcceptBatch(acceptBatch: AcceptBatch): AcceptBatch {
  return (caller, items, options) => {
    if (!isTracing()) return acceptBatch(caller, items, options);
    const drafts = items.filter((item): item is EmailDraft => !isRefusal(item));
    return inSpan('accept batch', optionsOf(caller, drafts), async (span) => {
      const traced = items.map((item) => (isRefusal(item) ? item : withSpan(item, span)));
      return ended(span, await acceptBatch(caller, traced, options));
    });
  };
}

function optionsOf(caller: Caller, drafts: readonly EmailDraft[]): SpanOptions {
  return {
    kind: 'server',
    parent: drafts[0]?.email.traceparent ?? null,
    attributes: {
      'letterhaus.project.id': caller.projectId,
      'letterhaus.environment': caller.environment,
      'letterhaus.emails': drafts.length,
      'letterhaus.recipients': drafts.reduce((sum, { recipients }) => sum + recipients.length, 0),
    },
  };
}

function withSpan(draft: EmailDraft, span: OpenSpan | null): EmailDraft {
  const { traceparent: _request, ...email } = draft.email;
  const traceparent = span?.traceparent ?? null;
  return { ...draft, email: { ...email, ...(traceparent !== null && { traceparent }) } };
}

function ended(span: OpenSpan | null, result: AcceptResult): AcceptResult {
  span?.set({ 'letterhaus.outcome': result.kind });
  if (result.kind === 'refused') span?.fail(result.refused);
  return result;
}
