/** Sends the requests of a run's clients to a node, and reads its responses. */

export type NodeResponse = { status: number; text: string };

export type NodeRequest = {
  /** Method of the request. Default: POST. */
  method?: string;
  /** API key; null: the request has none. */
  key: string | null;
  headers?: Readonly<Record<string, string>>;
  /** Body as JSON. */
  body?: string;
};

type Body = {
  id?: string;
  data?: { id: string }[];
  recipients?: { address: string; status: string }[];
  error?: { code?: string };
};

const RESPONSE_WITHIN_MS = 8_000;

/** Sends a request. Without a response, the node may still have done what the request asked for. */
export async function ask(
  url: string,
  { method = 'POST', key, headers = {}, body }: NodeRequest,
): Promise<NodeResponse | 'no answer'> {
  try {
    const response = await fetch(url, {
      method,
      signal: AbortSignal.timeout(RESPONSE_WITHIN_MS),
      headers: {
        ...(key !== null && { authorization: `Bearer ${key}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body }),
    });
    return { status: response.status, text: await response.text() };
  } catch {
    return 'no answer';
  }
}

/** Returns whether the service or its database is unavailable. */
export function isUnavailable(answer: NodeResponse): boolean {
  const code = errorCodeIn(answer.text);
  return answer.status === 503 && code === 'service_unavailable' && !isCrowdedOut(answer);
}

/**
 * Returns whether the request was refused because other projects take too much. No project may be refused for this
 * reason.
 */
export function isCrowdedOut({ status, text }: NodeResponse): boolean {
  return status === 503 && /too many|streams are open/.test(text);
}

/** Returns whether the response leaves open that the request was accepted. */
export function leavesOpen({ text }: NodeResponse): boolean {
  return text.includes('may have been');
}

/** Returns the ids of accepted emails, or of the items of a list. */
export function idsIn(text: string): string[] {
  const body = parsed(text);
  if (body?.id !== undefined) return [body.id];
  return (body?.data ?? []).map(({ id }) => id);
}

export function errorCodeIn(text: string): string | undefined {
  return parsed(text)?.error?.code;
}

/** Returns the addresses that the response to a cancel shows as canceled. */
export function canceledIn(text: string): string[] {
  const canceled = (parsed(text)?.recipients ?? []).filter(({ status }) => status === 'canceled');
  return canceled.map(({ address }) => address);
}

function parsed(text: string): Body | null {
  try {
    return JSON.parse(text) as Body;
  } catch {
    return null;
  }
}
