/** Copies text, also on pages without https, to which browsers do not give `navigator.clipboard`. */

/**
 * Call it within a click or a key press.
 * @returns whether the text was copied
 */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Also undefined, although the type does not say so.
    return copySelected(text);
  }
}

/** Selects the text in a field that nobody sees, and lets the browser copy the selection. */
function copySelected(text: string): boolean {
  const before = document.activeElement;
  const field = document.createElement('textarea');
  field.value = text;
  field.readOnly = true;
  field.className = 'sr-only';
  // The focus cannot leave an open dialog.
  (before?.closest('[role="dialog"], dialog') ?? document.body).append(field);
  field.select();
  try {
    // Deprecated, and the only way without https.
    return document.execCommand('copy');
  } finally {
    field.remove();
    if (before instanceof HTMLElement) before.focus();
  }
}
