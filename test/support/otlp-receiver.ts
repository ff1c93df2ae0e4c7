/** A collector of OpenTelemetry on loopback: receives spans as JSON over HTTP (OTLP), and keeps them. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { waitFor } from './wait.ts';

export type Span = {
  name: string;
  traceId: string;
  spanId: string;
  parentSpanId: string;
  links: { traceId: string; spanId: string }[];
  attributes: Record<string, string | number | boolean>;
  isError: boolean;
};

export type OtlpReceiver = AsyncDisposable & {
  url: string;
  readonly spans: Span[];
  /** The bodies of all requests. */
  readonly bodies: string[];
  /** Waits for a span of this name with this attribute. */
  waitForSpan(name: string, attributes: Record<string, unknown>): Promise<Span>;
};

export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const bodies: string[] = [];
  const spans: Span[] = [];
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      bodies.push(body);
      spans.push(...spansIn(body));
      response.setHeader('content-type', 'application/json').end('{}');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    bodies,
    waitForSpan: (name, attributes) =>
      waitFor(
        () =>
          spans.find(
            (span) =>
              span.name === name &&
              Object.entries(attributes).every(([key, value]) => span.attributes[key] === value),
          ),
        { what: `the span ${name} with ${JSON.stringify(attributes)}` },
      ),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

type Value = { stringValue?: string; intValue?: number; boolValue?: boolean; doubleValue?: number };
type WireSpan = Omit<Span, 'attributes' | 'isError' | 'links'> & {
  links?: Span['links'];
  attributes: { key: string; value: Value }[];
  status?: { code?: number };
};

function spansIn(body: string): Span[] {
  const { resourceSpans = [] } = JSON.parse(body) as {
    resourceSpans?: { scopeSpans: { spans: WireSpan[] }[] }[];
  };
  const spans = resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((one) => one.spans));
  return spans.map(({ attributes, status, links = [], ...span }) => ({
    ...span,
    links,
    attributes: Object.fromEntries(attributes.map(({ key, value }) => [key, valueOf(value)])),
    isError: status?.code === 2,
  }));
}

function valueOf({ stringValue, intValue, boolValue, doubleValue }: Value) {
  return stringValue ?? intValue ?? boolValue ?? doubleValue ?? '';
}
