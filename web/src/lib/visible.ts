/** Foreign text, so that nothing in it is unseen or turns what stands beside it. */

const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** The text, with `\xNN` or `\u{NNNN}` for characters that are not seen. */
export const visible = (text: string): string =>
  text.replace(UNSEEN, (c) => {
    const code = c.charCodeAt(0).toString(16);
    return code.length <= 2 ? `\\x${code.padStart(2, "0")}` : `\\u{${code}}`;
  });
