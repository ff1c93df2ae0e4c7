/**
 * Spans of OpenTelemetry for the path of an email: accepted, attempted, reported by webhook. The service has only the
 * API; an operator loads an SDK with `NODE_OPTIONS=--import …` (docs/monitoring.md, Traces). Without one nothing is
 * loaded and nothing is made: `inSpan` only calls its work.
 *
 * An email keeps the context of the span that accepted it, as the `traceparent` of W3C Trace Context. Spans that come
 * minutes later, perhaps on another machine, are separate traces with a link to it.
 *
 * Attributes are for people who may not read mail: no address, no subject, no reply text. The domain of a recipient and
 * the ids of emails are there.
 */
import type * as Api from '@opentelemetry/api';

type Attributes = Record<string, string | number | boolean | undefined>;

export type SpanOptions = {
  kind: 'server' | 'client';
  /** The `traceparent` of the request that the work is for. */
  parent?: string | null;
  /** The `traceparent` of a span whose consequence this one is. */
  link?: string | null;
  attributes: Attributes;
};

/** A span that is open. */
export type OpenSpan = {
  /** Its context, for others who continue or link this trace; null when the SDK does not record it. */
  traceparent: string | null;
  set(attributes: Attributes): void;
  /** Marks the span as failed. @param type a word, such as a code or a status */
  fail(type: string): void;
};

/** Where an SDK registers for the first major version of the API. */
const REGISTERED = Symbol.for('opentelemetry.js.api.1');
/** Version 00, a trace, a span and flags, none of them all zeros (W3C Trace Context, 3.2.2). */
const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;
const SAMPLED = 1;

let loaded: { api: typeof Api; tracer: Api.Tracer } | null = null;

/** Loads the API of OpenTelemetry if an SDK has registered. Call it once, before the first span. */
export async function loadTracing(version: string): Promise<void> {
  if (!(REGISTERED in globalThis)) return;
  const api = await import('@opentelemetry/api');
  loaded = { api, tracer: api.trace.getTracer('letterhaus', version) };
}

export function isTracing(): boolean {
  return loaded !== null;
}

/** Returns the value if it is a valid `traceparent`. Others are ignored, as the specification asks for. */
export function readTraceparent(value: string | string[] | undefined): string | null {
  return typeof value === 'string' && TRACEPARENT.test(value) ? value : null;
}

/** Calls `work` within a span, which ends with it. An error fails the span and is thrown again. */
export async function inSpan<Result>(
  name: string,
  options: SpanOptions,
  work: (span: OpenSpan | null) => Promise<Result>,
): Promise<Result> {
  if (loaded === null) return work(null);
  const { api } = loaded;
  const { context, span } = startSpan(loaded, name, options);
  try {
    return await api.context.with(context, work, undefined, openSpan(api, span));
  } catch (error) {
    openSpan(api, span).fail(error instanceof Error ? error.name : 'error');
    throw error;
  } finally {
    span.end();
  }
}

/**
 * A span with `link` begins a trace, even when the work was started by a request that is still active. Another span
 * belongs to what is active, such as the span of an instrumented HTTP server, or else to `parent`.
 */
function startSpan(
  { api, tracer }: NonNullable<typeof loaded>,
  name: string,
  { kind, parent, link, attributes }: SpanOptions,
): { context: Api.Context; span: Api.Span } {
  const active = api.context.active();
  const outer = api.trace.getSpan(active) || !parent ? active : contextOf(api, parent);
  const span = tracer.startSpan(
    name,
    {
      kind: kind === 'server' ? api.SpanKind.SERVER : api.SpanKind.CLIENT,
      links: link ? [{ context: spanContextOf(link) }] : [],
      root: link !== undefined,
      attributes,
    },
    outer,
  );
  return { context: api.trace.setSpan(outer, span), span };
}

function openSpan(api: typeof Api, span: Api.Span): OpenSpan {
  const { traceId, spanId, traceFlags } = span.spanContext();
  const isSampled = (traceFlags & SAMPLED) !== 0;
  return {
    traceparent: isSampled ? `00-${traceId}-${spanId}-01` : null,
    set: (attributes) => void span.setAttributes(attributes),
    fail: (type) => {
      span.setAttribute('error.type', type);
      span.setStatus({ code: api.SpanStatusCode.ERROR });
    },
  };
}

function contextOf(api: typeof Api, traceparent: string): Api.Context {
  return api.trace.setSpanContext(api.ROOT_CONTEXT, spanContextOf(traceparent));
}

function spanContextOf(traceparent: string): Api.SpanContext {
  const [, traceId = '', spanId = '', flags = ''] = traceparent.split('-');
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
}
