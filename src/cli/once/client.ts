/** A customer of `start --once`: calls the API with a key. */

export type Client = (method: string, path: string, body?: object) => Promise<ClientAnswer>;
/** `body` as the API sent it; what is in it is checked where it is read. */
export type ClientAnswer = { status: number; body: Record<string, unknown> };

export function createClient(url: string, key: string, signal: AbortSignal): Client {
  return async (method, path, body) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const content = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(new URL(path, url), { method, headers, signal, ...content });
    return { status: response.status, body: (await response.json()) as ClientAnswer['body'] };
  };
}
