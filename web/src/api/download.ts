/** Files of the API, saved by the browser. */
import { respond, type Scope } from './client.ts';

/** @throws ApiError for every failure */
export async function download(
  path: string,
  { scope, filename }: { scope: Scope; filename: string },
): Promise<void> {
  saveAs(await (await respond('GET', path, { scope })).blob(), filename);
}

export function saveAs(content: Blob, filename: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = filename;
  link.click();
  URL.revokeObjectURL(link.href);
}
