/** Files of the API, saved by the browser. */
export async function saveResponse(response: Response, filename: string): Promise<void> {
  saveAs(await response.blob(), filename);
}

export function saveAs(content: Blob, filename: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = filename;
  link.click();
  URL.revokeObjectURL(link.href);
}
