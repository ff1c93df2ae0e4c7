/** The requests of a run's clients to a node, and their reading of its answers. */

export type NodeResponse = { status: number; text: string };

export type NodeRequest = {
  /** Default: POST. */
  method?: string;
  /** null: none. */
  key: string | null;
  headers?: Readonly<Record<string, string>>;
  /** JSON. */
  body?: string;
};

type Body = {
  id?: string;
  data?: { id: string }[];
  recipients?: { address: string; status: string }[];
  error?: { code?: string };
};

const RESPONSE_WITHIN_MS = 8_000;

/** The node may have done what it was asked for without having answered. */
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

/** The service or its database is away. */
export function isUnavailable(answer: NodeResponse): boolean {
  const code = errorCodeIn(answer.text);
  return answer.status === 503 && code === 'service_unavailable' && !isCrowdedOut(answer);
}

/** Refused because other projects take too much. No project may be refused for this reason. */
export function isCrowdedOut({ status, text }: NodeResponse): boolean {
  return status === 503 && /too many|streams are open/.test(text);
}

/** An answer that leaves open whether the request was accepted. */
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

/** Addresses that the answer to a cancel shows as canceled. */
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
